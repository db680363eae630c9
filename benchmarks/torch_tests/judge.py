"""Exports a program of a test, runs the model in onnxruntime, and lets the harness judge what it returns."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from torch.onnx import TrainingMode

import onnx_parity
from onnx_parity.exporter.arrays import Fed, to_array
from onnx_parity.exporter.errors import CaptureError, ProgramFailedError
from onnx_parity.exporter.request.call_arguments import parameter_names, signature_of
from onnx_parity.exporter.runtime.sessions import errors_of_runtimes
from onnx_parity.exporter.verification.module_copy import copied
from onnx_parity.exporter.verification.oracle import Expected, expect, judge
from onnx_parity.exporter.verification.reference import MOVES, Measurement, Twin
from onnx_parity.harness.axes import ONNXRUNTIME, PARITY, TORCH_DYNAMO, TORCH_SCRIPT, Device
from onnx_parity.harness.cases.program import InputSet
from onnx_parity.harness.judging.outcome import MismatchError, Outcome
from onnx_parity.harness.judging.reference import Trial
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.one_line import error_line, one_line
from onnx_parity.harness.record import Stage, Status
from onnx_parity.harness.subjects.delivered import Delivered, inputs_of
from onnx_parity.harness.subjects.exporters import EXPORTERS
from onnx_parity.harness.subjects.runtime_interface import NoKernelError, Session
from onnx_parity.harness.subjects.runtimes import RUNTIMES

#: Tests are given another function by this name; see `exporting_function`.
_TORCH_EXPORT = torch.onnx.export

#: The dtypes of Python's numbers.
_OF_NUMBERS = (np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.float64))

#: A tensor, or a number that stands in its place.
Leaf = torch.Tensor | bool | int | float


@dataclass(frozen=True)
class Run:
    """Arguments that a program, and the model of it, are run with."""

    which: InputSet
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Call:
    """A program of a test, and what the test asks of its model."""

    program: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    #: Further arguments that the model is run with.
    others: tuple[tuple[Any, ...], ...]
    dynamic_axes: Any
    input_names: list[str] | None
    output_names: list[str] | None
    training: TrainingMode
    fold: bool
    #: The places of the arguments that the model has as inputs; None for all.
    fed: Sequence[int] | None
    #: The tolerance that the test asks for in place of the usual one; None for the oracle's.
    tolerance: float | None
    check_shape: bool
    check_dtype: bool

    def runs(self) -> Iterator[Run]:
        yield Run(InputSet(), self.args, self.kwargs)
        for number, other in enumerate(self.others, 1):
            yield Run(InputSet(draw=number), other, {})

    def ordered(self, run: Run) -> tuple[Any, ...]:
        """All arguments in the order of the parameters."""
        names = parameter_names(signature_of(self.program)) if run.kwargs else []
        return (*run.args, *(run.kwargs[name] for name in names if name in run.kwargs))


def run_call(call: Call, cell: Cell) -> Outcome:
    """Export the program, run the model on the arguments of the test, and judge the results."""
    outcome = Outcome(cell, ONNXRUNTIME)
    if isinstance(call.program, torch.nn.Module) and call.training is not TrainingMode.PRESERVE:
        call.program.train(call.training is TrainingMode.TRAINING)
    program, torchs = _copy(call.program), _Torch(call)
    try:
        runs = [(run, torchs.expected(run)) for run in call.runs()]
    except Exception as error:  # noqa: BLE001  Whatever torch raises for a program of an older torch.
        outcome.absent(f"torch itself fails: {error_line(error)}")
        return outcome
    outcome.stage = Stage.EXPORT
    try:
        outcome.delivered = Delivered(EXPORTS[cell.exporter](call, program, cell.opset))
    except Exception as error:  # noqa: BLE001  Any error that an exporter raises is its outcome.
        mark_error(outcome, error)
        return outcome
    _run_model(outcome, torchs, runs)
    if outcome.status is not Status.PASSED:
        return outcome
    at_another_size = _at_another_size(outcome, torchs)
    if at_another_size is not None and cell.exporter == PARITY:
        return at_another_size
    if at_another_size is not None:
        # Of other exporters it is noted, because the test itself does not ask for that size. This one has to refuse.
        outcome.reason = f"wrong at another size: {at_another_size.reason}"
    return outcome


def mark_error(outcome: Outcome, error: Exception) -> None:
    """Mark a cell as refused if the exporter raised the error on purpose, and as failed otherwise."""
    outcome.stage = Stage.EXPORT
    refusal = EXPORTERS[outcome.cell.exporter].refusal(error)
    if isinstance(error, CaptureError) and not isinstance(error, ProgramFailedError):
        refusal = one_line(str(error))
    if refusal:
        outcome.refuse(refusal, error)
    else:
        outcome.fail(error)


def _at_another_size(outcome: Outcome, torchs: _Torch) -> Outcome | None:
    """The outcome where a model that is right for the arguments of the test is not with another size of a dynamic axis.

    None if there is no such size.
    """
    for run in _with_other_sizes(torchs.call):
        try:
            expected = torchs.expected(run)
        except Exception:  # noqa: BLE001  Whatever torch raises for a size that the program does not take.
            continue
        other = Outcome(outcome.cell, outcome.runtime, delivered=outcome.delivered)
        _run_model(other, torchs, [(run, expected)])
        if other.status is not Status.PASSED:
            return other
    return None


def _with_other_sizes(call: Call) -> Iterator[Run]:
    """The arguments of a test with one dynamic axis larger by 1, which repeats what is at its first index."""
    tensors = [each for each in leaves(call.args) if isinstance(each, torch.Tensor)]
    for name, tensor in zip(call.input_names or (), tensors, strict=False):
        for axis in (call.dynamic_axes or {}).get(name, ()):
            if any(each is tensor for each in call.args) and axis < tensor.ndim and tensor.shape[axis] > 0:
                larger = torch.cat([tensor, tensor.narrow(axis, 0, 1)], axis)
                which = InputSet(sizes=((f"axis {axis} of {name}", larger.shape[axis]),))
                yield Run(which, tuple(larger if each is tensor else each for each in call.args), {})


def _run_model(outcome: Outcome, torchs: _Torch, runs: Sequence[tuple[Run, list[Expected]]]) -> None:
    """Run a model with each of these arguments, until it is wrong for some."""
    call = torchs.call
    assert outcome.delivered is not None
    failures: tuple[type[Exception], ...] = (InputsError, NoKernelError, *errors_of_runtimes())
    exported: Exported | None = None
    try:
        for run, expected in runs:
            outcome.stage = Stage.CHECK
            feeds = feeds_of(outcome.delivered, call.ordered(run), call.fed)
            outcome.trial = Trial(run.which, (), feeds, [expected])
            outcome.stage = Stage.LOAD
            exported = exported or Exported.of(outcome.delivered)
            outcome.stage = Stage.RUN
            outputs = exported.run(feeds)
            outcome.stage = Stage.COMPARE
            compared, wanted = _comparable(call, outputs, expected)
            verdict = judge(compared, wanted)
            if not verdict.passed and verdict.metrics is not None:
                # Five runs in float64 take longer than all else, so they are left for what is not right without them.
                expected = torchs.expected(run, moves=MOVES)
                outcome.trial = Trial(run.which, (), feeds, [expected])
                compared, wanted = _comparable(call, outputs, expected)
                verdict = judge(compared, wanted)
            if not verdict.passed:
                raise MismatchError(outcome.trial, tuple(compared), verdict)
            outcome.hold(verdict)
    except MismatchError as mismatch:
        outcome.mismatch(mismatch)
    except failures as error:
        outcome.fail(error)


class _Torch:
    """A program in torch, and in float64 and float32, from which its errors are measured."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self._twins = [Twin(call.program, dtype, _eager) for dtype in (torch.float64, torch.float32)]

    def expected(self, run: Run, *, moves: int = 0) -> list[Expected]:
        """What a model has to return for these arguments. With moves, the tolerance of each element follows from how
        far it changes if the arguments change by a unit in the last place, so often; without, from torch's own error.
        """
        program, given = self.call.program, (run.args, run.kwargs)
        floats = [each for each in leaves(given) if isinstance(each, torch.Tensor) and each.is_floating_point()]
        return Measurement(
            [to_array(each) for each in _eager(_copy(program), given)],
            given,
            *self._twins,
            seeds=range(moves if floats else 0),
            moved_by=max((torch.finfo(each.dtype).eps for each in floats), default=0.0),
            declared=self.call.tolerance,
            # torch's tests take zeros of either sign.
            signed_zeros=False,
        ).expected()


def _eager(program: Any, given: tuple[tuple[Any, ...], dict[str, Any]]) -> list[torch.Tensor]:
    """The tensors and numbers that the program returns. It may write to its arguments, so it gets copies."""
    torch.manual_seed(0)
    args, kwargs = copy.deepcopy(given)
    with torch.no_grad():
        returned = program(*args, **kwargs)
    return [each if isinstance(each, torch.Tensor) else torch.from_numpy(np.asarray(each)) for each in leaves(returned)]


def _copy(program: Any) -> Any:
    try:
        return copied(program)
    except (RuntimeError, TypeError):  # Weights that are computed cannot be copied, nor can functions of scripts.
        return program


def leaves(value: Any) -> Iterator[Leaf]:
    """The tensors and numbers in arguments or results. A quantized tensor is its integers, scale and zero point."""
    if isinstance(value, torch.Tensor) and value.is_quantized:
        yield from (value.int_repr(), value.q_scale(), value.q_zero_point())
    elif isinstance(value, torch.Tensor | bool | int | float):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from leaves(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from leaves(each)


def _comparable(
    call: Call, outputs: Sequence[Any], expected: Sequence[Expected]
) -> tuple[list[Any], Sequence[Expected]]:
    """Outputs in the dtype and shape of what is expected, as far as the test does not ask for them."""
    if len(outputs) != len(expected):
        # torch.onnx's exporters leave numbers out.
        expected = [each for each in expected if not _is_number(each)]
    if len(outputs) != len(expected):
        return list(outputs), expected
    compared, wanted = [], []
    for got, want in zip(outputs, expected, strict=True):
        if not call.check_shape and got.size == want.value.size:
            got = got.reshape(want.value.shape)
        if _is_number(want) and got.dtype != want.value.dtype:
            # A number has no dtype that the test could ask for.
            want = expect(want.value.astype(got.dtype), None)
        compared.append(got if call.check_dtype else got.astype(want.value.dtype))
        wanted.append(want)
    return compared, wanted


def _is_number(expected: Expected) -> bool:
    return not expected.value.shape and expected.value.dtype in _OF_NUMBERS


class InputsError(Exception):
    """The model has other inputs than the program has arguments."""


def feeds_of(delivered: Delivered, args: tuple[Any, ...], fed: Sequence[int] | None) -> dict[str, Fed]:
    """The arguments by the names of the model's inputs. An exporter may leave out numbers, and arguments not used."""
    inputs = inputs_of(delivered.proto.graph)
    every = list(leaves(args))
    ways: list[list[Any]] = [every, [each for each in every if isinstance(each, torch.Tensor)]]
    if fed is not None:
        ways += [list(leaves([args[each] for each in fed])), [every[each] for each in fed if each < len(every)]]
    if any(value.type.HasField("sequence_type") for value in inputs):
        ways = [[each for each in args if each is not None]]
    given = next((way for way in ways if len(way) == len(inputs)), None)
    if given is None:
        names = ", ".join(value.name for value in inputs) or "none"
        raise InputsError(f"{len(every)} tensors and numbers are given, and the model's inputs are {names}")
    return {value.name: _fed(value, each) for value, each in zip(inputs, given, strict=True)}


def _fed(value: onnx.ValueInfoProto, given: Any) -> Fed:
    if value.type.HasField("sequence_type"):
        return [to_array(tensor) for tensor in given]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    return to_array(given) if isinstance(given, torch.Tensor) else np.asarray(given, dtype=dtype)


@dataclass(frozen=True)
class Exported:
    """A model in onnxruntime."""

    session: Session

    @classmethod
    def of(cls, delivered: Delivered) -> Exported:
        return cls(RUNTIMES[ONNXRUNTIME].load(delivered.model, Device.CPU))

    def run(self, feeds: Mapping[str, Fed]) -> list[Any]:
        """The outputs, with the elements of sequences as outputs of their own."""
        outputs = self.session.run(feeds)
        return [each for output in outputs for each in (output if isinstance(output, list) else [output])]


def _by_parity(call: Call, program: Any, opset: int) -> bytes:
    axes = dict(call.dynamic_axes or {})
    # torch.onnx makes every number an input.
    for name, argument in zip(parameter_names(signature_of(program)), call.args, strict=False):
        numbers = list(leaves(argument))
        if numbers and not any(isinstance(each, torch.Tensor) for each in numbers):
            axes[name] = onnx_parity.AnyNumber()
    exported = onnx_parity.export(
        program,
        _arguments(call),
        opset_version=opset,
        input_names=call.input_names,
        output_names=call.output_names,
        dynamic_axes=axes,
        training=None if call.training is TrainingMode.PRESERVE else call.training is TrainingMode.TRAINING,
        do_constant_folding=call.fold,
        # The tests ask for models of programs that look at inputs only to decide; torch.onnx drops such inputs.
        allow_ignored_inputs=True,
    )
    return exported.serialize()


def _by_torch(call: Call, program: Any, opset: int, *, dynamo: bool) -> bytes:
    file: Any = io.BytesIO()  # It is not annotated to take one.
    _TORCH_EXPORT(
        program,
        _arguments(call),
        file,
        opset_version=opset,
        input_names=call.input_names,
        output_names=call.output_names,
        dynamic_axes=call.dynamic_axes,
        training=call.training,
        do_constant_folding=call.fold,
        dynamo=dynamo,
        verbose=False,
    )
    return bytes(file.getvalue())


def _arguments(call: Call) -> tuple[Any, ...]:
    """Arguments as `torch.onnx.export` takes them: a last dict has those by keyword, so an empty one may be needed."""
    args = copy.deepcopy(call.args)
    if call.kwargs:
        return (*args, copy.deepcopy(call.kwargs))
    return (*args, {}) if args and isinstance(args[-1], dict) else args


EXPORTS: Mapping[str, Callable[[Call, Any, int], bytes]] = {
    PARITY: _by_parity,
    TORCH_SCRIPT: lambda *asked: _by_torch(*asked, dynamo=False),
    TORCH_DYNAMO: lambda *asked: _by_torch(*asked, dynamo=True),
}


def exporting_function(exporter: str) -> Callable[..., object]:
    """What a test calls as `torch.onnx.export`."""
    if exporter == PARITY:
        return onnx_parity.export

    def export(*args: Any, **options: Any) -> object:
        return _TORCH_EXPORT(*args, dynamo=exporter == TORCH_DYNAMO, **options)

    return export
