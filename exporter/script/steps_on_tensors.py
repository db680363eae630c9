"""Steps that read the metadata of tensors, read numbers from tensors, or make tensors of numbers."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch
from msgspec.structs import replace

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.script.numbers import convert, depends_on_values
from onnx_parity.exporter.script.operator_arguments import (
    DTYPE_OF_NUMBER,
    NUMBER_OF_DTYPE,
    NUMBER_OF_LAYOUT,
    from_python,
    to_python,
)
from onnx_parity.exporter.script.parse import Step
from onnx_parity.exporter.script.steps import step_of
from onnx_parity.exporter.script.values import ScriptList, as_stack

__all__: list[str] = []


# --- metadata of tensors ----------------------------------------------------------------------------------------------


@step_of("aten::size")
def _size(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    x, *axis = arguments
    return x.shape[blocks.number(axis[0])] if axis else ScriptList(list(x.shape))


#: What a script reads of a tensor or a device without an operator.
_METADATA: dict[str, Callable[[Any], Any]] = {
    "aten::dim": lambda x: int(x.ndim),
    "aten::numel": lambda x: x.numel(),
    "aten::is_floating_point": lambda x: x.dtype.is_floating_point,
    "aten::is_complex": lambda x: x.dtype.is_complex,
    "aten::is_leaf": attrgetter("is_leaf"),
    "prim::data": lambda x: x.detach(),
    "prim::dtype": lambda x: NUMBER_OF_DTYPE[x.dtype],
    "prim::layout": lambda x: NUMBER_OF_LAYOUT[x.layout],
    **{
        f"prim::{name}": attrgetter(name)
        for name in (
            "device", "type", "index", "is_cuda", "is_mps", "is_cpu", "is_sparse", "is_sparse_csr", "is_nested",
            "is_quantized", "is_mkldnn", "is_meta", "is_vulkan", "is_xla", "is_xpu", "is_ipu", "is_maia",
            "requires_grad",
        )
    },
}  # fmt: skip


@step_of(*_METADATA)
def _read_metadata(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return _METADATA[step.kind](arguments[0])


# --- numbers in tensors -----------------------------------------------------------------------------------------------

_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "aten::Int": int, "aten::IntImplicit": int, "aten::Float": float, "aten::FloatImplicit": float, "aten::Bool": bool,
    "aten::is_nonzero": bool,
}  # fmt: skip


@step_of(*_CONVERSIONS)
def _convert(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    convert_number = _CONVERSIONS[step.kind]
    return _read(blocks, arguments[0], convert_number.__name__, convert_number)


@step_of("aten::item", "aten::ScalarImplicit")
def _item(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    x = arguments[0]
    returns = "float" if x.is_floating_point() else "bool" if x.dtype is torch.bool else "int"
    return _read(blocks, x, returns, lambda known: known)


def _read(blocks: Blocks, value: Any, returns: str, known: Callable[[Any], Any]) -> Any:
    if isinstance(value, torch.SymInt):
        if returns == "int":
            return value
        value = blocks.as_tensor(value)
    if not isinstance(value, torch.Tensor):
        return known(value)
    if not blocks.depends_on_input(value):
        return known(value.item())
    value = value.reshape(()) if value.ndim else value
    return convert(value != 0 if returns == "bool" and value.dtype is not torch.bool else value, returns)


@step_of("prim::tolist")
def _to_list(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """Numbers in nested lists, with one level for each axis of the tensor."""
    x, axes, _ = arguments
    kind = str(step.node.output().type())
    returns = next(name for name in ("float", "int", "bool") if name in kind)
    if axes != x.ndim:
        raise blocks.error(f"the script calls tolist for {axes} levels on a tensor of {x.ndim} axes")
    if not blocks.depends_on_input(x):
        with blocks.innermost():
            return from_python(x.tolist())
    return _list_numbers(blocks, x, returns)


def _list_numbers(blocks: Blocks, x: torch.Tensor, returns: str) -> Any:
    if not x.ndim:
        return _read(blocks, x, returns, lambda known: known)
    if isinstance(x.shape[0], int):
        return ScriptList([_list_numbers(blocks, item, returns) for item in x.unbind(0)])
    if x.ndim > 1:
        raise blocks.error("the script makes nested lists whose length depends on values: index the tensor instead")
    return ScriptList(stack=convert(x, returns))


@step_of("prim::NumToTensor", "aten::scalar_tensor", "aten::tensor", "aten::as_tensor")
def _make_tensor(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """Numbers as a tensor. If all are Python numbers, torch creates the tensor."""
    data, *options = arguments
    if step.operator is not None and step.operator.writes:
        out = options[-1]
        return out.copy_(_make_tensor(blocks, replace(step, operator=None), [data, NUMBER_OF_DTYPE[out.dtype]]))
    if step.kind == "aten::as_tensor" and isinstance(data, torch.Tensor) and step.operator is not None:
        return NotImplemented
    dtype = options[0] if options else None
    if dtype is not None:
        dtype = DTYPE_OF_NUMBER[dtype]
    elif step.kind == "aten::scalar_tensor":
        dtype = torch.get_default_dtype()
    place = 2 if step.kind == "aten::scalar_tensor" else 1
    device = options[place] if len(options) > place else None
    flat, shape = _flatten(blocks, data)
    if isinstance(flat, torch.Tensor):
        made = flat
    elif not any(map(depends_on_values, flat)):
        made = torch.tensor(to_python(data), dtype=dtype)
    else:
        items = [*map(blocks.as_tensor, flat)]
        made = items[0] if not shape else torch.stack(items).reshape(shape)
    if dtype is None:
        dtype = torch.get_default_dtype() if made.is_floating_point() else made.dtype
    return made.to(device or made.device, dtype)


def _flatten(blocks: Blocks, data: Any) -> tuple[Any, list[int]]:
    """The numbers in nested lists, and the lengths of the lists at each level."""
    if not isinstance(data, ScriptList):
        return [data], []
    if not data.is_known:
        return as_stack(data, blocks), []
    parts = [_flatten(blocks, item) for item in data.items]
    return [number for numbers, _ in parts for number in numbers], [len(parts), *(parts[0][1] if parts else [])]
