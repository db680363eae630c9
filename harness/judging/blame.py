"""Finds the likely cause of a failure, by asking witnesses that share no code with what is accused.

The witnesses are onnxruntime, onnx.reference, the graph in float64, and for a transformed model the same runtime on the
model before each transformation. They are the same in every environment, so that installing a further runtime changes
no record of another one. `scoreboard.py` counts what the other runtimes of a run say.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from onnx.reference import ReferenceEvaluator

from onnx_parity.exporter.arrays import is_float
from onnx_parity.exporter.runtime.widening import widen, widen_feeds
from onnx_parity.exporter.verification.oracle import Verdict, judge
from onnx_parity.harness.axes import BACKEND, ONNX_REFERENCE, ONNXRUNTIME, Device
from onnx_parity.harness.judging.reference import Trial, copy_feeds, restore_feeds
from onnx_parity.harness.judging.reference_loop import Loop
from onnx_parity.harness.record import Blame
from onnx_parity.harness.subjects.delivered import Delivered, proto_of
from onnx_parity.harness.subjects.runtime_interface import Runtime
from onnx_parity.harness.subjects.runtimes import OnnxReference, OnnxRuntime
from onnx_parity.harness.transformations.transformation import Transformation, floor_of, judge_outputs

#: Up to this ratio of error to tolerance a mismatch may be rounding. A wrong formula has a larger error.
_ROUNDING = 100.0
#: The same for a model in fewer bits, whose floor of signal to noise is missed by 10 dB or less.
_NOISE = 10.0**0.5
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
    #: One line: the results of the witnesses, and the conclusion from them.
    because: str


@dataclass(frozen=True, slots=True)
class History:
    """How a transformed model came about."""

    chain: tuple[Transformation, ...]
    #: The exported model, and the model after each transformation.
    models: tuple[Delivered, ...]
    #: The accused runtime itself.
    subject: Runtime
    #: Exports the program at another opset, as a witness against a converter.
    direct: Callable[[int], Delivered]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a failure: the inputs, the model that was run, and the runtime that ran it."""

    trial: Trial
    delivered: Delivered
    runtime: str
    device: Device = Device.CPU
    weight_bytes: int = 0
    #: None if the model was run as it was exported.
    history: History | None = None

    @property
    def floor(self) -> float | None:
        return floor_of(self.history.chain) if self.history else None


def rule(evidence: Evidence, outputs: Sequence[object], verdict: Verdict) -> Ruling:
    """Find the likely cause of wrong `outputs`, which the verdict rejected."""
    return _rule_on_transformed(evidence, outputs, verdict) or _rule_on_exported(evidence, outputs, verdict)


def rule_on_failure(evidence: Evidence) -> Ruling:
    """Find the likely cause if the runtime did not load or run a model that onnx's checker accepts."""
    return _rule_on_transformed(evidence, (), None) or _rule_on_failure_of_exported(evidence)


# --- models as they were exported -------------------------------------------------------------------------------------


def _rule_on_exported(evidence: Evidence, outputs: Sequence[object], verdict: Verdict) -> Ruling:
    runtime = evidence.runtime
    if evidence.device is Device.CUDA:
        if _ask(OnnxRuntime(), evidence, outputs) is Testimony.WITH_TORCH:
            said = f"{ONNXRUNTIME} agrees with torch on the CPU"
            if _may_be_rounding(verdict):
                return Ruling(Blame.PRECISION, f"{said}, and the error is of the size of rounding")
            return Ruling(Blame.RUNTIME, f"{said}, so what {runtime} runs on {evidence.device} is wrong")
    elif runtime == ONNXRUNTIME:
        plain = _ask(OnnxRuntime("none"), evidence, outputs)
        if plain is Testimony.WITH_TORCH:
            return Ruling(Blame.RUNTIME, f"{runtime} without optimisations agrees with torch: its optimiser is wrong")
        if evidence.weight_bytes > _REFERENCE_LIMIT:
            return Ruling(Blame.UNKNOWN, f"{runtime} without optimisations differs too; too large for onnx.reference")
    told = {witness.name: _ask(witness, evidence, outputs) for witness in _witnesses(evidence)}
    said = ", ".join(f"{name} {testimony.value}" for name, testimony in told.items())
    with_torch = [name for name, each in told.items() if each is Testimony.WITH_TORCH]
    with_runtime = [name for name, each in told.items() if each is Testimony.WITH_RUNTIME]
    # One witness that agrees with torch says more for the graph than one that agrees with the accused says against it:
    # two evaluators may lack the same, such as the lengths of sequences, but none gets a wrong graph right.
    if len(with_runtime) > len(with_torch):
        # Runtimes may agree because they round alike, so that the graph itself is asked.
        if _in_float64(evidence) is Testimony.WITH_TORCH:
            return Ruling(
                Blame.PRECISION, f"{said}, but in float64 the graph is right, so it is a question of precision"
            )
        agree = " and ".join(with_runtime)
        agrees = "agrees" if len(with_runtime) == 1 else "agree"
        return Ruling(Blame.EXPORTER, f"{agree} {agrees} with {runtime}, so the graph is wrong")
    if _may_be_rounding(verdict):
        return Ruling(Blame.PRECISION, f"{said}, and the error is of the size of rounding")
    if with_torch:
        return Ruling(Blame.RUNTIME, f"{said}, so {runtime} is wrong")
    in_float64 = _in_float64(evidence)
    if in_float64 is Testimony.WITH_TORCH:
        return Ruling(Blame.RUNTIME, f"{said}, but in float64 the graph is right, so {runtime} is wrong")
    if in_float64 is Testimony.WITH_NEITHER and Testimony.WITH_NEITHER in told.values():
        # Runtimes may differ in what they make of a wrong graph: of a division by zero, or of an index outside.
        return Ruling(Blame.EXPORTER, f"{said}, and in float64 the graph is wrong too")
    return Ruling(Blame.UNKNOWN, said)


def _rule_on_failure_of_exported(evidence: Evidence) -> Ruling:
    runtime = evidence.runtime
    if evidence.device is Device.CUDA and _ask(OnnxRuntime(), evidence, ()) is Testimony.WITH_TORCH:
        said = f"{ONNXRUNTIME} runs it on the CPU and agrees with torch"
        return Ruling(Blame.RUNTIME, f"{said}, so what {runtime} does on {evidence.device} is wrong")
    if runtime == ONNXRUNTIME and _ask(OnnxRuntime("none"), evidence, ()) is Testimony.WITH_TORCH:
        return Ruling(Blame.RUNTIME, f"{runtime} without optimisations agrees with torch: its optimiser is wrong")
    witnesses = _witnesses(evidence)
    if not witnesses:
        return Ruling(Blame.UNKNOWN, "too large for onnx.reference, the other witness")
    differing = ""
    for witness in witnesses:
        testimony = _ask(witness, evidence, ())
        if testimony is Testimony.WITH_TORCH and _divides_an_integer_by_zero(evidence):
            return Ruling(Blame.EXPORTER, "the graph divides an integer by zero, and ONNX leaves open what that gives")
        if testimony is Testimony.WITH_TORCH:
            return Ruling(Blame.RUNTIME, f"{witness.name} runs it and agrees with torch, so {runtime} is wrong")
        if testimony is not Testimony.SILENT:
            differing = differing or witness.name
    if differing:
        return Ruling(Blame.EXPORTER, f"{differing} runs it and differs from torch, so the graph is wrong")
    silent = " and ".join(witness.name for witness in witnesses)
    return Ruling(Blame.EXPORTER, f"{silent} cannot run it either, so the graph is wrong")


def _witnesses(evidence: Evidence) -> list[Runtime]:
    """The runtimes that share no code with the accused one, which may be onnxruntime as a backend or at some level."""
    accused = evidence.runtime.removeprefix(BACKEND)
    found: list[Runtime] = [] if accused.startswith(ONNXRUNTIME) else [OnnxRuntime()]
    if accused != ONNX_REFERENCE and evidence.weight_bytes <= _REFERENCE_LIMIT:
        found.insert(0, OnnxReference(new_ops=(Loop,)))
    return found


# --- models that were transformed -------------------------------------------------------------------------------------


def _rule_on_transformed(evidence: Evidence, outputs: Sequence[object], verdict: Verdict | None) -> Ruling | None:
    """The ruling if a transformation made the difference; None if the exported model fails in this runtime too."""
    history = evidence.history
    if history is None:
        return None
    subject = history.subject
    if not _is_right(subject, history.models[0], evidence, history.chain[:0]):
        return None
    for number, transformation in enumerate(history.chain):
        done, model = history.chain[: number + 1], history.models[number + 1]
        if _is_right(subject, model, evidence, done):
            continue
        said = f"{subject.name} is right before {transformation.name} and wrong after it"
        witness = next((each for each in _witnesses(evidence) if _is_right(each, model, evidence, done)), None)
        if witness is not None:
            return Ruling(Blame.RUNTIME, f"{said}, but {witness.name} is right after it, so {subject.name} is wrong")
        if transformation.opset is not None:
            if _is_right(subject, history.direct(transformation.opset), evidence, ()):
                said += f"; exported at opset {transformation.opset} directly it is right"
            else:
                said += f"; exported at opset {transformation.opset} directly it is wrong too"
                return Ruling(Blame.RUNTIME, f"{said}, so {subject.name} is wrong at that opset")
        if verdict is not None and transformation.floor is not None and _may_be_noise(verdict):
            return Ruling(Blame.PRECISION, f"{said}, by less than 10 dB")
        return Ruling(Blame.TRANSFORMATION, f"{said}, so {transformation.name} is wrong")
    return Ruling(Blame.UNKNOWN, f"{subject.name} is right after each transformation when it is run again")


def _is_right(runtime: Runtime, model: Delivered, evidence: Evidence, chain: Sequence[Transformation]) -> bool:
    before = copy_feeds(evidence.trial.feeds)
    try:
        outputs = runtime.load(model.model, evidence.device).run(evidence.trial.feeds)
    except Exception:  # noqa: BLE001  A runtime may raise anything for a model that may be wrong.
        return False
    finally:
        restore_feeds(evidence.trial.feeds, before)
    return judge_outputs(outputs, evidence.trial.expected, chain).passed


# --- testimonies ------------------------------------------------------------------------------------------------------


def _ask(witness: Runtime, evidence: Evidence, outputs: Sequence[object]) -> Testimony:
    try:
        testimony = witness.load(evidence.delivered.model, Device.CPU).run(evidence.trial.feeds)
    except Exception:  # noqa: BLE001  A witness may raise anything for a graph that may be wrong.
        return Testimony.SILENT
    if judge(testimony, evidence.trial.expected).passed:
        return Testimony.WITH_TORCH
    return Testimony.WITH_RUNTIME if _alike(testimony, outputs) else Testimony.WITH_NEITHER


def _divides_an_integer_by_zero(evidence: Evidence) -> bool:
    """Whether the graph does, as numpy warns where onnx.reference runs it: its division of floats has other names."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(divide="warn"):
        warnings.simplefilter("always")
        _ask(OnnxReference(new_ops=(Loop,)), evidence, ())
    said = [str(each.message) for each in caught]
    return any(
        f"divide by zero encountered in {ufunc}" in each for ufunc in ("floor_divide", "remainder") for each in said
    )


def _in_float64(evidence: Evidence) -> Testimony:
    """What the graph gives without rounding, as far as onnx.reference can compute it in float64."""
    if evidence.weight_bytes > _REFERENCE_LIMIT:
        return Testimony.SILENT
    trial, model = evidence.trial, evidence.delivered.model
    try:
        evaluator = ReferenceEvaluator(widen(proto_of(model)), new_ops=[Loop])
        given = evaluator.run(None, widen_feeds(trial.feeds))
        outputs = [
            np.asarray(each).astype(want.value.dtype) if is_float(want.value.dtype) else each
            for each, want in zip(given, trial.expected, strict=True)
        ]
    except Exception:  # noqa: BLE001  The graph may be wrong, and an operator may not accept float64.
        return Testimony.SILENT
    return Testimony.WITH_TORCH if judge(outputs, trial.expected).passed else Testimony.WITH_NEITHER


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


def _may_be_noise(verdict: Verdict) -> bool:
    return verdict.metrics is not None and verdict.metrics.headroom * _NOISE >= 1.0
