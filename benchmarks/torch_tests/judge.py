"""Exports a program of a test, runs the model in onnxruntime, and compares it with PyTorch."""

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
from onnx_parity.exporter.request.call_arguments import parameter_names, signature_of
from onnx_parity.exporter.runtime.sessions import errors_of_runtimes
from onnx_parity.harness.axes import ONNXRUNTIME, PARITY, TORCH_DYNAMO, TORCH_SCRIPT, Device
from onnx_parity.harness.comparison.outcome import Verdict
from onnx_parity.harness.comparison.worker import raised
from onnx_parity.harness.one_line import error_line, one_line
from onnx_parity.harness.subjects.delivered import inputs_of, proto_of
from onnx_parity.harness.subjects.exporters import EXPORTERS
from onnx_parity.harness.subjects.runtime_interface import NoKernelError, Session
from onnx_parity.harness.subjects.runtimes import RUNTIMES

#: The least absolute tolerance: that of torch's tests, 1e-7, is below the rounding of float32 sums.
ABSOLUTE = 1e-5

#: Tests are given another function by this name; see `exporting_function`.
_TORCH_EXPORT = torch.onnx.export

#: A tensor, or a number that stands in its place.
Leaf = torch.Tensor | bool | int | float


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
    rtol: float
    atol: float
    check_shape: bool
    check_dtype: bool

    def runs(self) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        yield self.args, self.kwargs
        for other in self.others:
            yield other, {}

    def ordered(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments in the order of the parameters."""
        names = parameter_names(signature_of(self.program)) if kwargs else []
        return (*args, *(kwargs[name] for name in names if name in kwargs))


def judge(call: Call, exporter: str, opset: int) -> tuple[Verdict | None, str]:
    """Export the program at an opset, and compare the model's results with torch's."""
    if isinstance(call.program, torch.nn.Module) and call.training is not TrainingMode.PRESERVE:
        call.program.train(call.training is TrainingMode.TRAINING)
    program = _copy(call.program)
    runs = list(call.runs())
    try:
        expected = [list(leaves(_eager(call.program, *run))) for run in runs]
    except Exception as error:  # noqa: BLE001  Whatever torch raises for a program of an older torch.
        return None, f"torch itself fails: {error_line(error)}"
    try:
        model = EXPORTS[exporter](call, program, opset)
    except Exception as error:  # noqa: BLE001  Any error that an exporter raises is its outcome.
        return raised(EXPORTERS[exporter], error)
    verdict, reason = _compared(call, model, runs, expected)
    if verdict is Verdict.RIGHT and (reason := _wrong_at_another_size(call, model)) and exporter == PARITY:
        # Of other exporters it is noted, because the test itself does not ask for that size. This one has to refuse.
        verdict = Verdict.WRONG
    return verdict, reason


def _wrong_at_another_size(call: Call, model: bytes) -> str:
    """Of a model that is right for the inputs of the test: in what it is not with another size of a dynamic axis."""
    for name, axis, args in _with_other_sizes(call):
        try:
            expected = list(leaves(_eager(call.program, args, {})))
        except Exception:  # noqa: BLE001  Whatever torch raises for a size that the program does not take.
            continue
        verdict, reason = _compared(call, model, [(args, {})], [expected])
        if verdict is not Verdict.RIGHT:
            return f"{verdict} where axis {axis} of {name!r} is larger by 1: {reason}"
    return ""


def _with_other_sizes(call: Call) -> Iterator[tuple[str, int, tuple[Any, ...]]]:
    """The arguments of a test with one dynamic axis larger by 1, which repeats what is at its first index."""
    tensors = [each for each in leaves(call.args) if isinstance(each, torch.Tensor)]
    for name, tensor in zip(call.input_names or (), tensors, strict=False):
        for axis in (call.dynamic_axes or {}).get(name, ()):
            if any(each is tensor for each in call.args) and axis < tensor.ndim and tensor.shape[axis] > 0:
                larger = torch.cat([tensor, tensor.narrow(axis, 0, 1)], axis)
                yield name, axis, tuple(larger if each is tensor else each for each in call.args)


def _compared(call: Call, model: bytes, runs: list[Any], expected: list[list[Leaf]]) -> tuple[Verdict, str]:
    failures: tuple[type[Exception], ...] = (NoKernelError, InputsError, *errors_of_runtimes())
    try:
        exported = Exported.of(model)
        for number, ((args, kwargs), wanted) in enumerate(zip(runs, expected, strict=True)):
            outputs = exported.run(call.ordered(args, kwargs), call.fed)
            if difference := _difference(call, outputs, wanted):
                return Verdict.WRONG, f"inputs {number}: {difference}"
    except failures as error:
        return Verdict.BROKEN, f"{ONNXRUNTIME}: {error_line(error)}"
    return Verdict.RIGHT, ""


def _eager(program: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the program returns. It may write to its arguments and to itself, so it gets copies."""
    torch.manual_seed(0)
    with torch.no_grad():
        return _copy(program)(*copy.deepcopy(args), **copy.deepcopy(kwargs))


def _copy(program: Any) -> Any:
    try:
        return copy.deepcopy(program)
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


def _difference(call: Call, outputs: list[Any], wanted: list[Leaf]) -> str:
    if len(outputs) != len(wanted):
        # torch.onnx's exporters leave numbers out.
        wanted = [each for each in wanted if isinstance(each, torch.Tensor)]
    if len(outputs) != len(wanted):
        return f"{len(outputs)} outputs instead of {len(wanted)}"
    for number, (got, want) in enumerate(zip(outputs, wanted, strict=True)):
        is_tensor = isinstance(want, torch.Tensor)
        expected = _array(want)
        if not call.check_shape:
            got, expected = np.broadcast_arrays(got, expected)
        if got.shape != expected.shape:
            return f"output {number} has shape {got.shape} instead of {expected.shape}"
        if is_tensor and call.check_dtype and got.dtype != expected.dtype:
            return f"output {number} is {got.dtype} instead of {expected.dtype}"
        try:
            torch.testing.assert_close(
                got, expected, rtol=call.rtol, atol=max(call.atol, ABSOLUTE), equal_nan=True, check_dtype=False
            )
        except AssertionError as error:
            return f"output {number}: {one_line(str(error))}"
    return ""


class InputsError(Exception):
    """The model has other inputs than the program has arguments."""


@dataclass(frozen=True)
class Exported:
    """A model in onnxruntime."""

    session: Session
    inputs: list[onnx.ValueInfoProto]

    @classmethod
    def of(cls, model: bytes) -> Exported:
        return cls(RUNTIMES[ONNXRUNTIME].load(model, Device.CPU), inputs_of(proto_of(model).graph))

    def run(self, args: tuple[Any, ...], fed: Sequence[int] | None) -> list[Any]:
        """The outputs for these arguments, with the elements of sequences as outputs of their own."""
        outputs = self.session.run(dict(self._feeds(args, fed)))
        return [each for output in outputs for each in (output if isinstance(output, list) else [output])]

    def _feeds(self, args: tuple[Any, ...], fed: Sequence[int] | None) -> Iterator[tuple[str, Any]]:
        every = list(leaves(args))
        ways: list[list[Any]] = [every, [each for each in every if isinstance(each, torch.Tensor)]]
        if fed is not None:
            ways += [list(leaves([args[each] for each in fed])), [every[each] for each in fed if each < len(every)]]
        if any(value.type.HasField("sequence_type") for value in self.inputs):
            ways = [[each for each in args if each is not None]]
        given = next((way for way in ways if len(way) == len(self.inputs)), None)
        if given is None:
            names = ", ".join(value.name for value in self.inputs) or "none"
            raise InputsError(f"{len(every)} tensors and numbers are given, and the model's inputs are {names}")
        for value, each in zip(self.inputs, given, strict=True):
            if value.type.HasField("sequence_type"):
                yield value.name, [tensor.numpy() for tensor in each]
            else:
                dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
                yield value.name, _array(each) if isinstance(each, torch.Tensor) else np.asarray(each, dtype=dtype)


def _array(leaf: Leaf) -> Any:
    """An array with the values of a tensor or number. Complex numbers are pairs."""
    if not isinstance(leaf, torch.Tensor):
        return np.asarray(leaf)
    plain = leaf.detach().resolve_conj().resolve_neg()
    return (torch.view_as_real(plain) if plain.is_complex() else plain).numpy()


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
