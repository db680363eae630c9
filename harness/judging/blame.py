"""Finds the likely cause of a failure, by running the model in other runtimes that share no code with the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from onnx_parity.exporter.verification.oracle import Verdict, judge
from onnx_parity.harness.axes import BACKEND, ONNXRUNTIME, Device
from onnx_parity.harness.judging.reference import Trial
from onnx_parity.harness.record import Blame
from onnx_parity.harness.subjects.delivered import Delivered
from onnx_parity.harness.subjects.runtime_interface import Runtime
from onnx_parity.harness.subjects.runtimes import OnnxReference, OnnxRuntime

#: Up to this ratio of error to tolerance a mismatch may be rounding. A wrong formula has a larger error.
_ROUNDING = 100.0
#: Models with more bytes of weights than this are not run in onnx.reference, whose convolution in numpy takes minutes.
_REFERENCE_LIMIT = 32 << 20


class Testimony(Enum):
    """How the outputs of another runtime compare with the outputs in question."""

    WITH_TORCH = "agrees with torch"
    WITH_RUNTIME = "agrees with the runtime"
    WITH_NEITHER = "agrees with neither"
    SILENT = "could not run it"


@dataclass(frozen=True, slots=True)
class Ruling:
    blame: Blame
    #: One line: the results of the other runtimes, and the conclusion from them.
    because: str


def rule(
    delivered: Delivered,
    trial: Trial,
    outputs: Sequence[object],
    verdict: Verdict,
    runtime: str,
    weight_bytes: int,
    device: Device = Device.CPU,
) -> Ruling:
    """Find the likely cause of wrong `outputs`, which `runtime` returned on this device and `verdict` rejected."""
    if device is Device.CUDA:
        if _ask(OnnxRuntime(), delivered, trial, outputs) is Testimony.WITH_TORCH:
            said = f"{ONNXRUNTIME} agrees with torch on the CPU"
            if _may_be_rounding(verdict):
                return Ruling(Blame.PRECISION, f"{said}, and the error is of the size of rounding")
            return Ruling(Blame.RUNTIME, f"{said}, so what {runtime} runs on {device} is wrong")
    elif runtime == ONNXRUNTIME:
        plain = _ask(OnnxRuntime("none"), delivered, trial, outputs)
        if plain is Testimony.WITH_TORCH:
            return Ruling(Blame.RUNTIME, f"{runtime} without optimisations agrees with torch: its optimiser is wrong")
        if weight_bytes > _REFERENCE_LIMIT:
            return Ruling(Blame.UNKNOWN, f"{runtime} without optimisations differs too; too large for onnx.reference")
    witness = _witness(runtime)
    testimony = _ask(witness, delivered, trial, outputs)
    said = f"{witness.name} {testimony.value}"
    if testimony is Testimony.WITH_RUNTIME:
        return Ruling(Blame.EXPORTER, f"{witness.name} agrees with {runtime}, so the graph is wrong")
    if _may_be_rounding(verdict):
        return Ruling(Blame.PRECISION, f"{said}, and the error is of the size of rounding")
    if testimony is Testimony.WITH_TORCH:
        return Ruling(Blame.RUNTIME, f"{said}, so {runtime} is wrong")
    return Ruling(Blame.UNKNOWN, said)


def rule_on_failure(
    delivered: Delivered, trial: Trial, runtime: str, weight_bytes: int, device: Device = Device.CPU
) -> Ruling:
    """Find the likely cause if `runtime` did not load or run a model on this device that onnx's checker accepts."""
    if device is Device.CUDA and _ask(OnnxRuntime(), delivered, trial, ()) is Testimony.WITH_TORCH:
        said = f"{ONNXRUNTIME} runs it on the CPU and agrees with torch"
        return Ruling(Blame.RUNTIME, f"{said}, so what {runtime} does on {device} is wrong")
    if weight_bytes > _REFERENCE_LIMIT:
        return Ruling(Blame.UNKNOWN, "too large for onnx.reference, the other witness")
    witness = _witness(runtime)
    testimony = _ask(witness, delivered, trial, ())
    if testimony is Testimony.WITH_TORCH:
        return Ruling(Blame.RUNTIME, f"{witness.name} runs it and agrees with torch, so {runtime} is wrong")
    if testimony is Testimony.SILENT:
        return Ruling(Blame.EXPORTER, f"{witness.name} cannot run it either, so the graph is wrong")
    return Ruling(Blame.EXPORTER, f"{witness.name} runs it and differs from torch, so the graph is wrong")


def _witness(runtime: str) -> Runtime:
    """A runtime that shares no code with the given one, which may be onnxruntime as a backend or at some level."""
    accused = runtime.removeprefix(BACKEND)
    return OnnxReference() if accused.startswith(ONNXRUNTIME) else OnnxRuntime()


def _ask(witness: Runtime, delivered: Delivered, trial: Trial, outputs: Sequence[object]) -> Testimony:
    try:
        testimony = witness.load(delivered.model, Device.CPU).run(trial.feeds)
    except Exception:  # noqa: BLE001  A witness may raise anything for a graph that may be wrong.
        return Testimony.SILENT
    if judge(testimony, trial.expected).passed:
        return Testimony.WITH_TORCH
    return Testimony.WITH_RUNTIME if _alike(testimony, outputs) else Testimony.WITH_NEITHER


def _alike(ours: Sequence[object], theirs: Sequence[object]) -> bool:
    """Whether the outputs of two runtimes agree to three digits, where neither is the reference."""
    return len(ours) == len(theirs) and all(
        isinstance(a, np.ndarray)
        and isinstance(b, np.ndarray)
        and (a.shape, a.dtype) == (b.shape, b.dtype)
        and np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-3, atol=1e-6, equal_nan=True)
        for a, b in zip(ours, theirs, strict=True)
    )


def _may_be_rounding(verdict: Verdict) -> bool:
    return verdict.metrics is not None and verdict.metrics.headroom * _ROUNDING >= 1.0
