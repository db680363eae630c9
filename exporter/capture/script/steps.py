"""What TorchScript does beside operators on tensors: attributes, lists, dicts, tuples, strings, numbers in tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from exporter.capture.blocks import EMPTY, UNSET, Blocks
from exporter.capture.script.arguments import Part, taken_in
from exporter.capture.script.containers import Instance, Maybe, ScriptList, stacked
from exporter.capture.script.numbers import compute, converted
from exporter.capture.script.parsed import Step

__all__ = ["STEPS"]

#: Does a step with its arguments; `NotImplemented` leaves it to the operator of that name.
_Do = Callable[[Blocks, Step, list[Any]], Any]

STEPS: dict[str, _Do] = {}


def _step(*kinds: str) -> Callable[[_Do], _Do]:
    def register(do: _Do) -> _Do:
        STEPS.update(dict.fromkeys(kinds, do))
        return do

    return register


# --- objects ----------------------------------------------------------------------------------------------------------


@_step("prim::GetAttr")
def _get_attribute(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    owner = arguments[0]
    if isinstance(owner, Instance):
        return owner.attributes[step.name]
    path = f"{owner.path}.{step.name}" if owner.path else step.name
    value = owner.module.getattr(step.name)
    return Part(value, path) if isinstance(value, (torch._C.ScriptModule, torch._C.ScriptObject)) else taken_in(value)


@_step("prim::SetAttr")
def _set_attribute(blocks: Blocks, step: Step, arguments: list[Any]) -> None:
    owner, value = arguments
    if not isinstance(owner, Instance):
        raise blocks.error(
            f"the script assigns to the attribute {step.name!r} of a module. A model keeps nothing from one run to the "
            "next: return the value"
        )
    owner.attributes[step.name] = value


@_step("prim::CreateObject")
def _create(blocks: Blocks, step: Step, arguments: list[Any]) -> Instance:
    return Instance()


@_step("prim::Uninitialized")
def _unset(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return UNSET


@_step("prim::unchecked_cast", "aten::_unwrap_optional", "prim::unchecked_unwrap_optional")
def _there(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return arguments[0].value if isinstance(arguments[0], Maybe) else arguments[0]


@_step("aten::__is__", "aten::__isnot__")
def _is(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    one, other = arguments
    maybe = one if isinstance(one, Maybe) else other
    if isinstance(maybe, Maybe) and (one is None or other is None):
        return compute(blocks, "__not__", [maybe.present], "bool") if step.kind == "aten::__is__" else maybe.present
    return (one is other) is (step.kind == "aten::__is__")


@_step("prim::RaiseException")
def _raise(blocks: Blocks, step: Step, arguments: list[Any]) -> None:
    raise blocks.error(f"the script raises an exception: {arguments[0]}")


@_step("prim::Print", "aten::warn")
def _say(blocks: Blocks, step: Step, arguments: list[Any]) -> None:
    return None


@_step("prim::PythonOp")
def _call_python(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    origins = blocks.recorder.origins
    origins.step = None
    return taken_in(step.node.pyobj()(*map(_in_python, arguments)))  # type: ignore[attr-defined]


@_step("prim::rangelist")
def _range_list(blocks: Blocks, step: Step, arguments: list[Any]) -> ScriptList:
    return ScriptList(list(range(arguments[0])))


def _in_python(value: Any) -> Any:
    return [_in_python(item) for item in value.items] if isinstance(value, ScriptList) else value


# --- what is known of tensors -----------------------------------------------------------------------------------------


@_step("aten::size")
def _size(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    x, *axis = arguments
    if axis and isinstance(axis[0], torch.Tensor):
        axis = [blocks.number(axis[0])]
    return x.shape[axis[0]] if axis else ScriptList(list(x.shape))


@_step("aten::dim")
def _dim(blocks: Blocks, step: Step, arguments: list[Any]) -> int:
    return int(arguments[0].ndim)


@_step("aten::numel")
def _numel(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return arguments[0].numel()


@_step("prim::dtype")
def _dtype(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return arguments[0].dtype


@_step("prim::device")
def _device(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return arguments[0].device


@_step("prim::layout")
def _layout(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return arguments[0].layout


@_step("prim::is_cuda", "prim::is_mps", "prim::is_cpu", "prim::is_sparse", "prim::is_quantized", "prim::requires_grad")
def _flag(blocks: Blocks, step: Step, arguments: list[Any]) -> bool:
    return bool(getattr(arguments[0], step.kind.removeprefix("prim::")))


@_step("aten::is_floating_point", "aten::is_complex")
def _is_dtype(blocks: Blocks, step: Step, arguments: list[Any]) -> bool:
    return bool(getattr(arguments[0].dtype, step.kind.removeprefix("aten::")))


# --- numbers in tensors -----------------------------------------------------------------------------------------------


@_step("aten::Int", "aten::IntImplicit")
def _int(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return _read(blocks, arguments[0], "int", int)


@_step("aten::Float", "aten::FloatImplicit")
def _float(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return _read(blocks, arguments[0], "float", float)


@_step("aten::Bool")
def _bool(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return _read(blocks, arguments[0], "bool", bool)


@_step("aten::item", "aten::ScalarImplicit")
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
    return value != 0 if returns == "bool" and value.dtype is not torch.bool else converted(value, returns)


@_step("prim::NumToTensor", "aten::scalar_tensor", "aten::tensor", "aten::as_tensor")
def _to_tensor(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """Numbers as a tensor. What there is in Python is made as Python does."""
    data, *options = arguments
    if step.kind == "aten::as_tensor" and isinstance(data, torch.Tensor) and step.operator is not None:
        return NotImplemented
    dtype = options[0] if options else None
    if isinstance(dtype, int):
        dtype = _DTYPES[dtype]
    flat, shape = _flat(blocks, data)
    if isinstance(flat, torch.Tensor):
        made = flat
    elif not any(isinstance(item, (torch.Tensor, torch.SymInt)) for item in flat):
        return torch.tensor(_in_python(data), dtype=dtype)
    else:
        items = [item if isinstance(item, torch.Tensor) else blocks.give(blocks.tensor(item)) for item in flat]
        made = items[0] if not shape else torch.stack(items).reshape(shape)
    if dtype is None:
        dtype = torch.get_default_dtype() if made.is_floating_point() else made.dtype
    return made.to(dtype)


def _flat(blocks: Blocks, data: Any) -> tuple[Any, list[int]]:
    """The numbers in nested lists, and the sizes of these."""
    if not isinstance(data, ScriptList):
        return [data], []
    if data.stack is not None:
        return data.stack, []
    parts = [_flat(blocks, item) for item in data.items]
    return [number for numbers, _ in parts for number in numbers], [len(parts), *(parts[0][1] if parts else [])]


#: torch numbers its dtypes in this order.
_DTYPES = dict(
    enumerate(
        (
            torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
            torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.qint8, torch.quint8, torch.qint32,
            torch.bfloat16,
        )
    )
)  # fmt: skip


# --- tuples, lists, dicts, strings ------------------------------------------------------------------------------------


@_step("prim::TupleConstruct")
def _tuple(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return tuple(arguments)


@_step("prim::TupleUnpack", "prim::ListUnpack")
def _unpack(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    value = arguments[0]
    items = value.items if isinstance(value, ScriptList) else value
    if isinstance(value, ScriptList) and value.stack is not None:
        raise blocks.error("the script unpacks a list whose length depends on values: take its items by number")
    if len(items) != len(step.outputs):
        raise blocks.error(f"the script unpacks {len(step.outputs)} values from {len(items)}")
    return items[0] if len(step.outputs) == 1 else tuple(items)


@_step("prim::TupleIndex")
def _tuple_item(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return arguments[0][arguments[1]]


@_step("prim::ListConstruct")
def _list(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return ScriptList(list(arguments))


@_step("prim::DictConstruct")
def _dict(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return dict(zip(arguments[::2], arguments[1::2], strict=True))


@_step("aten::len")
def _len(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    value = arguments[0]
    if isinstance(value, ScriptList):
        return len(value.items) if value.stack is None else 0 if value.stack is EMPTY else value.stack.shape[0]
    return value.shape[0] if isinstance(value, torch.Tensor) else len(value)


@_step("aten::__getitem__", "aten::get")
def _get(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    value, place, *default = arguments
    if isinstance(value, dict):
        if place not in value and not default and step.kind == "aten::__getitem__":
            raise blocks.error(f"the script asks a dict for {place!r}, which is not in it")
        return value.get(place, default[0] if default else None)
    if isinstance(value, str):
        return value[place]
    items = value.items if isinstance(value, ScriptList) else value
    if isinstance(value, ScriptList) and value.stack is not None:
        return torch.select(stacked(value, blocks), 0, _index(blocks, place))
    if isinstance(place, (torch.Tensor, torch.SymInt)):
        return torch.select(stacked(ScriptList(list(items)), blocks), 0, _index(blocks, place))
    if not -len(items) <= place < len(items):
        raise blocks.error(f"the script asks a list of {len(items)} items for item {place}")
    return items[place]


def _index(blocks: Blocks, place: Any) -> Any:
    return blocks.number(place) if isinstance(place, torch.Tensor) else place


@_step("aten::append")
def _append(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    target, item = arguments
    if target.stack is None:
        target.items.append(item)
    else:
        one = stacked(ScriptList([item]), blocks)
        target.stack = one if target.stack is EMPTY else torch.cat([target.stack, one])
    return target


@_step("aten::_set_item")
def _set(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    target, place, item = arguments
    if isinstance(target, dict):
        target[place] = item
        return target
    if target.stack is not None or isinstance(place, (torch.Tensor, torch.SymInt)):
        one = item if isinstance(item, torch.Tensor) else blocks.give(blocks.tensor(item))
        target.stack = torch.select_scatter(stacked(target, blocks), one, 0, _index(blocks, place))
        target.items = []
    else:
        target.items[place] = item
    return target


@_step("aten::extend", "aten::add_")
def _extend(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    target, other = arguments[:2]
    if not isinstance(target, ScriptList):
        return NotImplemented
    joined = _joined(blocks, target, other)
    target.items, target.stack = joined.items, joined.stack
    return target


@_step("aten::add")
def _add(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    one, other = arguments[:2]
    if isinstance(one, ScriptList):
        return _joined(blocks, one, other)
    return one + other if isinstance(one, str) else NotImplemented


def _joined(blocks: Blocks, one: ScriptList, other: ScriptList) -> ScriptList:
    if one.stack is None and other.stack is None:
        return ScriptList([*one.items, *other.items])
    parts = [part for part in (stacked(one, blocks), stacked(other, blocks)) if part is not EMPTY]
    return ScriptList([], torch.cat(parts) if len(parts) > 1 else parts[0] if parts else EMPTY)


@_step("aten::mul")
def _repeat(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    if isinstance(arguments[0], ScriptList) and isinstance(arguments[1], int):
        return ScriptList(arguments[0].items * arguments[1])
    return NotImplemented


@_step("aten::cat", "aten::concat", "aten::stack")
def _cat(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """Of a list of unknown length, which is a tensor already."""
    parts, axis = arguments[:2]
    if not isinstance(parts, ScriptList) or parts.stack is None:
        return NotImplemented
    if step.kind == "aten::stack":
        return parts.stack.movedim(0, axis)
    rank = parts.stack.ndim - 1
    moved = parts.stack.movedim(0, axis % rank)
    return moved.flatten(axis % rank, axis % rank + 1)


@_step("aten::list", "aten::copy", "aten::dict")
def _copy(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    value = arguments[0]
    if isinstance(value, ScriptList):
        return ScriptList(list(value.items), value.stack)
    return dict(value) if isinstance(value, dict) else ScriptList(list(value))


@_step("aten::slice")
def _slice(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    value, start, end, *by = arguments
    if isinstance(value, str):
        return value[start : end if end is not None else len(value) : by[0] if by else 1]
    if not isinstance(value, ScriptList):
        return NotImplemented
    if value.stack is not None:
        return ScriptList(
            [], torch.ops.aten.slice.Tensor(value.stack, 0, _index(blocks, start), _index(blocks, end), *by)
        )
    return ScriptList(value.items[start : end : by[0] if by else 1])


@_step("aten::pop")
def _pop(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    target, place = arguments[0], arguments[1] if len(arguments) > 1 else -1
    if isinstance(target, dict):
        return target.pop(place)
    if target.stack is None and isinstance(place, int):
        return target.items.pop(place)
    if place != -1 or target.stack is EMPTY:
        raise blocks.error(
            "the script takes an item out of a list whose length depends on values: only the last can be"
        )
    last = target.stack[-1]
    target.stack = target.stack[:-1]
    return last


@_step("aten::clear")
def _clear(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    if isinstance(arguments[0], dict):
        arguments[0].clear()
    else:
        arguments[0].items, arguments[0].stack = [], None


@_step("aten::insert")
def _insert(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    _known(blocks, arguments[0]).items.insert(arguments[1], arguments[2])


@_step("aten::reverse")
def _reverse(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    target = arguments[0]
    target.items.reverse()
    if isinstance(target.stack, torch.Tensor):
        target.stack = target.stack.flip([0])


@_step("aten::Delete")
def _delete(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    target, place = arguments
    del (target if isinstance(target, dict) else _known(blocks, target).items)[place]


def _known(blocks: Blocks, value: ScriptList) -> ScriptList:
    if value.stack is not None:
        raise blocks.error("the script changes a list whose length depends on values in the middle: append to it only")
    return value


@_step("aten::keys", "aten::values", "aten::items")
def _of_dict(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    if not isinstance(arguments[0], dict):
        return NotImplemented
    return ScriptList(list(getattr(arguments[0], step.kind.removeprefix("aten::"))()))


@_step("aten::__contains__")
def _contains(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    within, item = arguments
    items = within if isinstance(within, (dict, str)) else _known(blocks, within).items
    if not isinstance(items, (dict, str)) and any(
        isinstance(each, (torch.Tensor, torch.SymInt)) for each in (*items, item)
    ):
        same = [compute(blocks, "eq", [each, item], "bool") for each in items]
        result: Any = False
        for each in same:
            result = compute(blocks, "__or__", [result, each], "bool")
        return result
    return item in items


@_step("aten::format")
def _format(blocks: Blocks, step: Step, arguments: list[Any]) -> str:
    text, *values = arguments
    return str(text).format(*map(_in_python, values))


@_step("prim::min", "prim::max")
def _extreme(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    name = step.kind.removeprefix("prim::")
    numbers = _known(blocks, arguments[0]).items if isinstance(arguments[0], ScriptList) else arguments
    return functools.reduce(lambda one, other: compute(blocks, name, [one, other], step.returns), numbers)


@_step("aten::__range_length")
def _range_length(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    first, end, by = arguments
    if all(isinstance(argument, int) for argument in arguments):
        return len(range(first, end, by))
    if not isinstance(by, int):
        raise blocks.error("a range's step depends on values: ONNX loops by one")
    span = compute(blocks, "sub", [end, first] if by > 0 else [first, end], "int")
    span = compute(blocks, "add", [span, abs(by) - 1], "int")
    return compute(blocks, "floordiv", [span, abs(by)], "int")


@_step("aten::__derive_index")
def _derive_index(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    number, first, by = arguments
    return compute(blocks, "add", [first, compute(blocks, "mul", [number, by], "int")], "int")
