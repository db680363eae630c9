"""Values of a script as arguments of operators and as values of Python, and those as values of a script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.recording.results import TensorList, TensorOrNone
from onnx_parity.exporter.script.parse import Operator, describe
from onnx_parity.exporter.script.values import Maybe, ScriptList
from onnx_parity.exporter.torch_inside.dispatcher import overload_of, schema_of

__all__ = [
    "DTYPE_OF_NUMBER",
    "MEMORY_FORMATS",
    "NUMBER_OF_DTYPE",
    "NUMBER_OF_LAYOUT",
    "Part",
    "arguments_of",
    "beside",
    "from_python",
    "read_numbers",
    "split_arguments",
    "to_python",
]

#: TorchScript represents dtypes and layouts by numbers, also in the constants of its graphs. They are in this order.
DTYPE_OF_NUMBER = dict(
    enumerate(
        (
            torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
            torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.qint8, torch.quint8, torch.qint32,
            torch.bfloat16, torch.quint4x2, torch.quint2x4, torch.bits1x8, torch.bits2x4, torch.bits4x2, torch.bits8,
            torch.bits16, torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e5m2fnuz, torch.float8_e4m3fnuz,
            torch.uint16, torch.uint32, torch.uint64,
        )
    )
)  # fmt: skip
NUMBER_OF_DTYPE = {dtype: number for number, dtype in DTYPE_OF_NUMBER.items()}
NUMBER_OF_LAYOUT = {torch.strided: 0, torch.sparse_coo: 1}
#: Of TorchScript's numbers for them.
MEMORY_FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)

#: For an overload that takes numbers, the overloads that may take tensors instead.
_OVER_TENSORS = {
    "Scalar": ("Tensor", "Tensor_Tensor", "default"),
    "Tensor_Scalar": ("Tensor_Tensor",),
    "int_Scalar": ("int_Tensor",),
    "ScalarOther": ("self",),
    "ScalarSelf": ("self",),
    "default": ("Tensor",),
    "Scalar_mode": ("Tensor_mode",),
    "scalar": ("default",),
    "Scalar_Tensor": ("Tensor",),
    "Scalar_Self": ("Tensor",),
    "Scalar_Other": ("Tensor",),
}
_EXAMPLES = {torch.bool: True, torch.int64: 1, torch.float64: 1.0}


class Part:
    """A compiled module, or a submodule of one, with its path."""

    __slots__ = ("module", "path")

    def __init__(self, module: Any, path: str) -> None:
        self.module = module
        self.path = path


def from_python(value: Any) -> Any:
    """A Python value, or the result of an operator, as the interpreter represents it."""
    if isinstance(value, (list, torch.Size)):
        return ScriptList([from_python(item) for item in value])
    if isinstance(value, tuple):
        return tuple(from_python(item) for item in value)
    if isinstance(value, dict):
        return {key: from_python(item) for key, item in value.items()}
    if isinstance(value, TensorList):
        return ScriptList(stack=value.tensor) if value.stacked else ScriptList(sequence=value.tensor)
    if isinstance(value, TensorOrNone):
        return Maybe(value.present, value.value)
    if isinstance(value, torch.dtype):
        return NUMBER_OF_DTYPE[value]
    return NUMBER_OF_LAYOUT[value] if isinstance(value, torch.layout) else value


def to_python(value: Any) -> Any:
    """A value of the interpreter as functions of Python take it."""
    if not isinstance(value, ScriptList):
        return value
    if not value.is_known:
        of_stack = value.sequence is None
        return TensorList(value.stack if of_stack else value.sequence, of_numbers=False, stacked=of_stack)
    return [to_python(item) for item in value.items]


def arguments_of(blocks: Blocks, operator: Operator, values: Sequence[Any]) -> tuple[Operator, list[Any]]:
    """The operator to call and its arguments, if some of the numbers are in tensors."""
    wrong = [
        place
        for place, (parameter, value) in enumerate(zip(operator.parameters, values, strict=False))
        if not parameter.takes_tensor and _holds_tensor(value)
    ]
    prepared = list(values)
    if not wrong:
        return operator, prepared
    scalars = [place for place in wrong if operator.parameters[place].takes_scalar]
    sibling = _over_tensors(operator, scalars) if scalars else None
    if sibling is not None:
        anchor = next(value for value in values if isinstance(value, torch.Tensor))
        for place, parameter in enumerate(sibling.parameters):
            value = prepared[place] if place < len(prepared) else None
            if parameter.takes_tensor and value is not None and operator.parameters[place].takes_scalar:
                prepared[place] = beside(blocks, anchor, value)
    for place in wrong:
        if sibling is None or place not in scalars:
            prepared[place] = read_numbers(blocks, operator, prepared[place])
    return sibling or operator, prepared


def split_arguments(operator: Operator, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Those that are given by position, and those that are given by name."""
    pairs = list(zip(operator.parameters, values, strict=False))
    return [value for each, value in pairs if not each.named], {each.name: value for each, value in pairs if each.named}


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or (
        isinstance(value, list) and any(isinstance(item, torch.Tensor) for item in value)
    )


def _over_tensors(operator: Operator, places: Sequence[int]) -> Operator | None:
    """The overload with the same parameters that takes tensors at these positions, if there is one."""
    packet = operator.call.overloadpacket
    for name in _OVER_TENSORS.get(overload_of(operator.call), ()):
        found = describe(getattr(packet, name)) if name in packet.overloads() else None
        if found is None or len(found.parameters) != len(operator.parameters):
            continue
        if all(found.parameters[place].takes_tensor for place in places):
            return found
    return None


def beside(blocks: Blocks, anchor: torch.Tensor, number: Any) -> torch.Tensor:
    """A number as a tensor with the dtype that type promotion gives the number beside another tensor."""
    tensor = blocks.as_tensor(number)
    dtype = torch.result_type(anchor, _EXAMPLES[tensor.dtype])
    return tensor if tensor.dtype is dtype else tensor.to(dtype)


def read_numbers(blocks: Blocks, operator: Operator, value: Any, *, floats: bool = False) -> Any:
    """The number in a tensor of one number, also in a list: a symbol if it is an int that depends on an input.

    Of a float that does, `floats` leaves the tensor. Other values are as they are.
    """
    if isinstance(value, list):
        return [read_numbers(blocks, operator, item, floats=floats) for item in value]
    if not isinstance(value, torch.Tensor) or (floats and value.is_floating_point()):
        return value
    if value.dtype is torch.int64:
        return blocks.number(value)
    if not blocks.depends_on_input(value):
        return value.item()
    kind = "boolean" if value.dtype is torch.bool else "number"
    raise blocks.error(
        f"{schema_of(operator.call).name} takes a {kind} that depends on values, "
        "which ONNX cannot represent: use a constant, or choose with torch.where or `if`"
    )
