"""Operations of TorchScript that are no tensor operators: attributes, metadata of tensors, and numbers in tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from msgspec.structs import replace

from onnx_parity.exporter.graph.graph import same_size
from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.recording.leaves import UNSET
from onnx_parity.exporter.recording.results import TensorList
from onnx_parity.exporter.script.module_attributes import ModuleAttributes
from onnx_parity.exporter.script.numbers import compute, converted
from onnx_parity.exporter.script.operator_arguments import (
    DTYPE_OF_NUMBER,
    NUMBER_OF_DTYPE,
    NUMBER_OF_LAYOUT,
    taken_in,
)
from onnx_parity.exporter.script.parse import ASSIGNED_ATTRIBUTE, Step
from onnx_parity.exporter.script.steps import step_of
from onnx_parity.exporter.script.values import Instance, Maybe, ScriptList, stacked

__all__ = ["in_python"]


@step_of("aten::manual_seed")
def _manual_seed(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    *generators, seed = arguments
    generator = generators[0] if generators else None
    return torch.manual_seed(seed) if generator is None else generator.manual_seed(seed)


@step_of("aten::copy_")
def _copy_into(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """Copy what fits only if one of its dynamic sizes is 1. A branch that the example does not take may do so. For any
    other size torch raises, and Reshape does so when the model runs."""
    target, source = arguments[:2]
    if not blocks.recorder.in_block or not isinstance(source, torch.Tensor) or source.ndim > target.ndim:
        return NotImplemented
    whole = target.shape[target.ndim - source.ndim :]
    narrowed = [
        axis
        for axis, known in enumerate(whole)
        if isinstance(known, int) and known == 1 and isinstance(source.shape[axis], torch.SymInt)
    ]
    if not narrowed:
        return NotImplemented
    sizes = [1 if axis in narrowed else size for axis, size in enumerate(source.shape)]
    value = blocks.take(source)
    made = blocks.recorder.stand_in(source.dtype, sizes, source.device)
    blocks.recorder.add(torch.ops.aten.view.default, {"self": blocks.recorder.value_of(value), "size": sizes}, [made])
    return taken_in(target.copy_(blocks.give(made)))


# --- objects ----------------------------------------------------------------------------------------------------------


@step_of("prim::GetAttr")
def _get_attribute(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    owner = arguments[0]
    if isinstance(owner, Instance):
        return owner.attributes[step.name]
    return ModuleAttributes.of(blocks).read(owner, step.name)


@step_of(ASSIGNED_ATTRIBUTE)
def _assigned_attribute(blocks: Blocks, step: Step, arguments: list[Any]) -> Instance:
    return ModuleAttributes.of(blocks).assigned(arguments[0], step.name)


@step_of("prim::SetAttr")
def _set_attribute(blocks: Blocks, step: Step, arguments: list[Any]) -> None:
    owner, value = arguments
    if not isinstance(owner, Instance):
        raise blocks.error(
            f"the script assigns to the attribute {step.name!r} of a module that it selected by values: assign to an "
            "attribute of a module that is known at export"
        )
    owner.attributes[step.name] = value


@step_of("prim::EnumName", "prim::EnumValue")
def _of_enum(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return taken_in(getattr(arguments[0], step.kind.removeprefix("prim::Enum").lower()))


@step_of("prim::CreateObject")
def _create(blocks: Blocks, step: Step, arguments: list[Any]) -> Instance:
    return Instance()


@step_of("prim::Uninitialized")
def _unset(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return UNSET


@step_of("prim::unchecked_cast", "aten::_unwrap_optional", "prim::unchecked_unwrap_optional")
def _there(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return arguments[0].value if isinstance(arguments[0], Maybe) else arguments[0]


@step_of("aten::__is__", "aten::__isnot__")
def _is(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    one, other = arguments
    maybe = one if isinstance(one, Maybe) else other
    if isinstance(maybe, Maybe) and (one is None or other is None):
        return compute(blocks, "__not__", [maybe.present], "bool") if step.kind == "aten::__is__" else maybe.present
    return (one is other) is (step.kind == "aten::__is__")


@step_of("prim::RaiseException")
def _raise(blocks: Blocks, step: Step, arguments: list[Any]) -> None:
    raise blocks.error(f"the script raises an exception: {arguments[0]}")


@step_of("prim::Print", "aten::warn")
def _say(blocks: Blocks, step: Step, arguments: list[Any]) -> None:
    return None


@step_of("prim::PythonOp")
def _call_python(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    origins = blocks.recorder.origins
    origins.step = None
    return taken_in(step.node.pyobj()(*map(in_python, arguments)))  # type: ignore[attr-defined]


@step_of("prim::rangelist")
def _range_list(blocks: Blocks, step: Step, arguments: list[Any]) -> ScriptList:
    return ScriptList(list(range(arguments[0])))


def in_python(value: Any) -> Any:
    if not isinstance(value, ScriptList):
        return value
    if not value.is_known:
        of_stack = value.sequence is None
        return TensorList(value.stack if of_stack else value.sequence, of_numbers=False, stacked=of_stack)
    return [in_python(item) for item in value.items]


# --- metadata of tensors ----------------------------------------------------------------------------------------------


@step_of("aten::size")
def _size(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    x, *axis = arguments
    if axis and isinstance(axis[0], torch.Tensor):
        axis = [blocks.number(axis[0])]
    return x.shape[axis[0]] if axis else ScriptList(list(x.shape))


@step_of("aten::_pad_packed_sequence")
def _unpack_sequence(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """Leave out the number of steps if it is that of the packed sequence, because the operator takes no symbol."""
    data, batch_sizes, batch_first, value, steps = arguments
    if not isinstance(steps, torch.SymInt) or not same_size(steps, batch_sizes.shape[0]):
        return NotImplemented
    return torch.ops.aten._pad_packed_sequence(data, batch_sizes, batch_first, value, -1)


@step_of("aten::dim")
def _dim(blocks: Blocks, step: Step, arguments: list[Any]) -> int:
    return int(arguments[0].ndim)


@step_of("aten::stride")
def _stride(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    x, *axis = arguments
    return x.stride(axis[0]) if axis else ScriptList(list(x.stride()))


@step_of("aten::numel")
def _numel(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return arguments[0].numel()


@step_of("prim::dtype")
def _dtype(blocks: Blocks, step: Step, arguments: list[Any]) -> int:
    return NUMBER_OF_DTYPE[arguments[0].dtype]


@step_of("prim::device")
def _device(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return arguments[0].device


@step_of("prim::type", "prim::index")
def _of_device(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return getattr(arguments[0], step.kind.removeprefix("prim::"))


@step_of("prim::layout")
def _layout(blocks: Blocks, step: Step, arguments: list[Any]) -> int:
    return NUMBER_OF_LAYOUT[arguments[0].layout]


@step_of(
    "prim::is_cuda",
    "prim::is_mps",
    "prim::is_cpu",
    "prim::is_sparse",
    "prim::is_sparse_csr",
    "prim::is_nested",
    "prim::is_quantized",
    "prim::is_mkldnn",
    "prim::is_meta",
    "prim::is_vulkan",
    "prim::is_xla",
    "prim::is_xpu",
    "prim::is_ipu",
    "prim::is_maia",
    "prim::requires_grad",
    "aten::is_leaf",
)
def _flag(blocks: Blocks, step: Step, arguments: list[Any]) -> bool:
    return bool(getattr(arguments[0], step.kind.partition("::")[2]))


@step_of("aten::is_floating_point", "aten::is_complex")
def _is_dtype(blocks: Blocks, step: Step, arguments: list[Any]) -> bool:
    return bool(getattr(arguments[0].dtype, step.kind.removeprefix("aten::")))


# --- numbers in tensors -----------------------------------------------------------------------------------------------


@step_of("aten::Int", "aten::IntImplicit")
def _int(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return _read(blocks, arguments[0], "int", int)


@step_of("aten::Float", "aten::FloatImplicit")
def _float(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return _read(blocks, arguments[0], "float", float)


@step_of("aten::Bool")
def _bool(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return _read(blocks, arguments[0], "bool", bool)


@step_of("aten::item", "aten::ScalarImplicit")
def _item(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    x = arguments[0]
    returns = "float" if x.is_floating_point() else "bool" if x.dtype is torch.bool else "int"
    return _read(blocks, x, returns, lambda known: known)


def _read(blocks: Blocks, value: Any, returns: str, known: Callable[[Any], Any]) -> Any:
    if isinstance(value, torch.SymInt):
        if returns == "int":
            return value
        value = blocks.give(blocks.tensor(value))
    if not isinstance(value, torch.Tensor):
        return known(value)
    if not blocks.depends_on_input(value):
        return known(value.item())
    value = value.reshape(()) if value.ndim else value
    return converted(value != 0 if returns == "bool" and value.dtype is not torch.bool else value, returns)


@step_of("prim::data")
def _data(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return arguments[0].detach()


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
            return taken_in(x.tolist())
    return _listed(blocks, x, returns)


def _listed(blocks: Blocks, x: torch.Tensor, returns: str) -> Any:
    if not x.ndim:
        return _read(blocks, x, returns, lambda known: known)
    if isinstance(x.shape[0], int):
        return ScriptList([_listed(blocks, item, returns) for item in x.unbind(0)])
    if x.ndim > 1:
        raise blocks.error("the script makes nested lists whose length depends on values: index the tensor instead")
    return ScriptList(stack=converted(x, returns))


@step_of("prim::NumToTensor", "aten::scalar_tensor", "aten::tensor", "aten::as_tensor")
def _to_tensor(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """Numbers as a tensor. If all are Python numbers, torch creates the tensor."""
    data, *options = arguments
    if step.operator is not None and step.operator.writes:
        out = options[-1]
        return out.copy_(_to_tensor(blocks, replace(step, operator=None), [data, NUMBER_OF_DTYPE[out.dtype]]))
    if step.kind == "aten::as_tensor" and isinstance(data, torch.Tensor) and step.operator is not None:
        return NotImplemented
    dtype = options[0] if options else None
    if dtype is not None:
        dtype = DTYPE_OF_NUMBER[dtype]
    elif step.kind == "aten::scalar_tensor":
        dtype = torch.get_default_dtype()
    place = 2 if step.kind == "aten::scalar_tensor" else 1
    device = options[place] if len(options) > place else None
    flat, shape = _flat(blocks, data)
    if isinstance(flat, torch.Tensor):
        made = flat
    elif not any(isinstance(item, (torch.Tensor, torch.SymInt)) for item in flat):
        made = torch.tensor(in_python(data), dtype=dtype)
    else:
        items = [item if isinstance(item, torch.Tensor) else blocks.give(blocks.tensor(item)) for item in flat]
        made = items[0] if not shape else torch.stack(items).reshape(shape)
    if dtype is None:
        dtype = torch.get_default_dtype() if made.is_floating_point() else made.dtype
    return made.to(device or made.device, dtype)


def _flat(blocks: Blocks, data: Any) -> tuple[Any, list[int]]:
    """The numbers in nested lists, and the lengths of the lists at each level."""
    if not isinstance(data, ScriptList):
        return [data], []
    if not data.is_known:
        return stacked(data, blocks), []
    parts = [_flat(blocks, item) for item in data.items]
    return [number for numbers, _ in parts for number in numbers], [len(parts), *(parts[0][1] if parts else [])]
