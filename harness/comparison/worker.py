"""A worker process: runs one exporter on samples, which it receives one by one, and sends the outcomes.

    python -m onnx_parity.harness.comparison.worker EXPORTER SEED DESCRIPTOR

Samples come from standard input. Outcomes go to the descriptor, because exporters print to standard output.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from onnx_parity.exporter.arrays import Array, epsilon, is_float, to_array
from onnx_parity.exporter.errors import CaptureError, ProgramFailedError
from onnx_parity.exporter.runtime.sessions import errors_of_runtimes
from onnx_parity.harness.axes import ONNXRUNTIME, Device
from onnx_parity.harness.cases.opinfo_samples import (
    Sample,
    SampleModule,
    all_entries,
    draw_samples,
    sample_at,
    sample_seed,
)
from onnx_parity.harness.comparison.outcome import Outcome, Point, Task, Verdict
from onnx_parity.harness.one_line import error_line, one_line
from onnx_parity.harness.running.channel import Channel, die_with
from onnx_parity.harness.subjects.delivered import Delivered
from onnx_parity.harness.subjects.exporters import EXPORTERS, Exporter, Request
from onnx_parity.harness.subjects.runtime_interface import NoKernelError
from onnx_parity.harness.subjects.runtimes import RUNTIMES

#: Sent once, when all slow imports are done.
READY = b"ready"

#: The tolerance of floats, relative to the element plus absolute. All other values must be equal.
RELATIVE, ABSOLUTE = 1e-3, 1e-4
#: For floats of 16 bits, in units of the last place of the largest element: sums of them cancel.
_UNITS_OF_HALVES = 16
_HALVES = (torch.float16, torch.bfloat16)


def outcomes(task: Task, exporter: Exporter, seed: int) -> Iterator[Outcome]:
    """Export a sample at each opset of a task, run it, and compare."""
    point = task.point
    sample = sample_at(point.entry, point.dtype, point.position, sample_seed(seed, point.entry))
    assert sample is not None, f"{point} is not in the survey"
    # A module of another draw has other weights, so only the tensors are taken from it.
    calls = [_Call.of(sample, drawn.tensors) for drawn in _draws(sample, point, seed)]
    start = time.perf_counter()
    try:
        captured = exporter.capture(Request(SampleModule(sample), sample.tensors, sample.input_names, {}))
    except Exception as error:  # noqa: BLE001  Any error that an exporter raises is its outcome.
        for opset in task.opsets:
            yield Outcome(point, exporter.name, opset, *raised(exporter, error))
        return
    capture_seconds = time.perf_counter() - start
    for opset in task.opsets:
        start = time.perf_counter()
        try:
            delivered = Delivered(captured.deliver(opset, None))
        except Exception as error:  # noqa: BLE001
            yield Outcome(point, exporter.name, opset, *raised(exporter, error))
            continue
        seconds = capture_seconds + time.perf_counter() - start
        verdict, reason = _judged(delivered, opset, sample.input_names, calls)
        yield Outcome(point, exporter.name, opset, verdict, reason, seconds)


def raised(exporter: Exporter, error: Exception) -> tuple[Verdict, str]:
    """The verdict on an export that raised an error, and the reason."""
    refusal = exporter.refusal(error)
    if isinstance(error, CaptureError) and not isinstance(error, ProgramFailedError):
        refusal = one_line(str(error))
    return (Verdict.REFUSED, refusal) if refusal else (Verdict.BROKEN, f"export: {error_line(error)}")


@dataclass(frozen=True, slots=True)
class _Call:
    """Tensors to run a model with, and torch's results for them."""

    tensors: tuple[torch.Tensor, ...]
    expected: list[Array]
    #: Of 16 bits: what torch computes from the same values in float32, if it can.
    wider: list[Array]

    @classmethod
    def of(cls, sample: Sample, tensors: tuple[torch.Tensor, ...]) -> _Call:
        wider: list[Array] = []
        if any(tensor.dtype in _HALVES for tensor in tensors):
            # torch's samples have arguments that say the dtype of a result, and dtypes that have to be alike.
            with suppress(RuntimeError, TypeError, ValueError, NotImplementedError):
                wider = _results(sample, [each.float() if each.dtype in _HALVES else each for each in tensors])
        return cls(tensors, _results(sample, tensors), wider)


@torch.no_grad()
def _results(sample: Sample, tensors: Sequence[torch.Tensor]) -> list[Array]:
    leaves = tree_leaves(sample.call(*(tensor.clone() for tensor in tensors)))
    return [to_array(torch.as_tensor(leaf)) for leaf in leaves if leaf is not None]


def _draws(sample: Sample, point: Point, seed: int) -> Iterator[Sample]:
    """The sample, and the same call with other values: a model must not contain results for those of its export."""
    yield sample
    drawn = draw_samples(point.entry, point.dtype, sample_seed(seed, point.entry, 1))
    if point.position < len(drawn) and drawn[point.position].is_same_call(sample):
        yield drawn[point.position]


def _judged(delivered: Delivered, opset: int, names: tuple[str, ...], calls: list[_Call]) -> tuple[Verdict, str]:
    if delivered.opset != opset:
        return Verdict.WRONG, f"opset {opset} was requested, but opset {delivered.opset} was delivered"
    taken = {value.name for value in delivered.proto.graph.input}
    failures: tuple[type[Exception], ...] = (NoKernelError, *errors_of_runtimes())
    try:
        model = RUNTIMES[ONNXRUNTIME].load(delivered.model, Device.CPU)
        for call in calls:
            given = zip(names, call.tensors, strict=True)
            # torch's exporters leave out inputs that the result does not depend on.
            outputs = model.run({name: to_array(tensor) for name, tensor in given if name in taken})
            if difference := first_difference(list(outputs), call.expected, call.wider):
                return Verdict.WRONG, difference
    except failures as error:
        return Verdict.BROKEN, f"{ONNXRUNTIME}: {error_line(error)}"
    return Verdict.RIGHT, ""


def first_difference(outputs: list[object], expected: list[Array], wider: Sequence[Array] = ()) -> str:
    """Describe the first difference of a runtime's outputs; empty if they are as expected. An element may also be what
    torch computes in a wider dtype: a value in between may be beyond the range of 16 bits, or lose most of its digits.
    """
    if len(outputs) != len(expected):
        return f"{len(outputs)} outputs instead of {len(expected)}"
    for number, (got, want) in enumerate(zip(outputs, expected, strict=True)):
        where = f"output {number}"
        if not isinstance(got, np.ndarray):
            return f"{where} is {type(got).__name__} instead of a tensor"
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            return f"{where} is {got.dtype} of shape {got.shape} instead of {want.dtype} of shape {want.shape}"
        wrong = _wrong_elements(got, want)
        if wrong.any() and number < len(wider) and wider[number].shape == want.shape and want.itemsize == 2:
            with np.errstate(over="ignore"):
                wrong &= _wrong_elements(got, wider[number].astype(want.dtype))
        if wrong.any():
            first = int(wrong.ravel().argmax())
            place = tuple(int(each) for each in np.unravel_index(first, want.shape))
            return (
                f"{where} at {place}: {got.flat[first]:.6g} instead of {want.flat[first]:.6g}; "
                f"{int(wrong.sum())} of {wrong.size} elements"
            )
    return ""


def _wrong_elements(got: Array, want: Array) -> Array:
    if not is_float(want.dtype):
        return np.asarray(got != want)
    with np.errstate(all="ignore"):
        wide, exact = got.astype(np.float64), want.astype(np.float64)
        absolute = ABSOLUTE
        if want.itemsize == 2:
            largest = np.abs(exact[np.isfinite(exact)]).max(initial=0.0)
            absolute += _UNITS_OF_HALVES * epsilon(want.dtype) * float(largest)
        return ~np.isclose(wide, exact, rtol=RELATIVE, atol=absolute, equal_nan=True)


def main(exporter: str, seed: int, descriptor: int) -> None:
    """Answer tasks until there are no more."""
    die_with(os.getppid())
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    channel = Channel(sys.stdin.fileno(), descriptor)
    all_entries()  # Takes seconds, which must not count as time of the first sample.
    channel.send(READY)
    with suppress(EOFError):
        while True:
            for outcome in outcomes(msgspec.json.decode(channel.receive(), type=Task), EXPORTERS[exporter], seed):
                channel.send(msgspec.json.encode(outcome))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
