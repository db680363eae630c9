"""Steps that make, read and change tuples, lists, dicts, strings and ranges."""

from __future__ import annotations

import functools
from typing import Any

import torch

from onnx_parity.exporter.recording import recorded_lists
from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.recording.leaves import EMPTY
from onnx_parity.exporter.script.numbers import compute, depends_on_values
from onnx_parity.exporter.script.operator_arguments import to_python
from onnx_parity.exporter.script.parse import Step
from onnx_parity.exporter.script.steps import step_of
from onnx_parity.exporter.script.values import ScriptList, as_sequence, as_stack, known_items, stacks

__all__: list[str] = []

_ONLY_APPENDS = ("inserts or deletes items in", "only append to it")


@step_of("prim::TupleConstruct")
def _tuple(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return tuple(arguments)


@step_of("prim::TupleUnpack", "prim::ListUnpack")
def _unpack(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    value = arguments[0]
    items = known_items(value, blocks, "unpacks", "take its items by index") if isinstance(value, ScriptList) else value
    if len(items) != len(step.outputs):
        raise blocks.error(f"the script unpacks {len(step.outputs)} values from a list of {len(items)}")
    return items[0] if len(step.outputs) == 1 else tuple(items)


@step_of("prim::TupleIndex")
def _tuple_item(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return arguments[0][arguments[1]]


@step_of("prim::ListConstruct")
def _list(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return ScriptList(list(arguments))


@step_of("prim::DictConstruct")
def _dict(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return dict(zip(arguments[::2], arguments[1::2], strict=True))


@step_of("aten::len")
def _len(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    value = arguments[0]
    if isinstance(value, ScriptList):
        if value.sequence is not None:
            return recorded_lists.read_length(blocks, value.sequence)
        return len(value.items) if value.stack is None else 0 if value.stack is EMPTY else value.stack.shape[0]
    return value.shape[0] if isinstance(value, torch.Tensor) else len(value)


@step_of("aten::__getitem__", "aten::get")
def _get(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    value, place, *default = arguments
    if isinstance(value, (dict, str)):
        _known_places(blocks, place)
    if isinstance(value, dict):
        if place not in value and not default and step.kind == "aten::__getitem__":
            raise blocks.error(f"the script reads the key {place!r}, which its dict does not have")
        return value.get(place, default[0] if default else None)
    if isinstance(value, str):
        return value[place]
    items = value if isinstance(value, ScriptList) else ScriptList(list(value))
    if items.is_known and not depends_on_values(place):
        if not -len(items.items) <= place < len(items.items):
            raise blocks.error(f"the script reads item {place} of a list of {len(items.items)} items")
        return items.items[place]
    stack: Any = as_stack(items, blocks) if stacks(items) else EMPTY
    if stack is not EMPTY:
        return torch.select(stack, 0, blocks.number(place))
    return recorded_lists.read_item(blocks, as_sequence(items, blocks), place)


@step_of("aten::append")
def _append(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    target, item = arguments
    if target.sequence is not None:
        target.sequence = recorded_lists.insert_item(blocks, target.sequence, item)
    elif target.stack is None:
        target.items.append(item)
    elif not stacks(target, ScriptList([item])):
        target.become([], sequence=recorded_lists.insert_item(blocks, as_sequence(target, blocks), item))
    else:
        one = as_stack(ScriptList([item]), blocks)
        target.stack = one if target.stack is EMPTY else torch.cat([target.stack, one])
    return target


@step_of("aten::_set_item")
def _set(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    target, place, item = arguments
    if isinstance(target, dict):
        _known_places(blocks, place)
        target[place] = item
        return target
    if target.is_known and not depends_on_values(place):
        target.items[place] = item
    elif not stacks(target, ScriptList([item])):
        target.become([], sequence=recorded_lists.replace_item(blocks, as_sequence(target, blocks), place, item))
    else:
        one = blocks.as_tensor(item)
        target.become([], torch.select_scatter(as_stack(target, blocks), one, 0, blocks.number(place)))
    return target


@step_of("aten::extend", "aten::add_")
def _extend(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    target, other = arguments[:2]
    if not isinstance(target, ScriptList):
        return NotImplemented
    joined = _join(blocks, target, other)
    target.become(joined.items, joined.stack, joined.sequence)
    return target


@step_of("aten::add")
def _add(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    one, other = arguments[:2]
    if isinstance(one, ScriptList):
        return _join(blocks, one, other)
    return one + other if isinstance(one, str) else NotImplemented


def _join(blocks: Blocks, one: ScriptList, other: ScriptList) -> ScriptList:
    if one.is_known and other.is_known:
        return ScriptList([*one.items, *other.items])
    if other.is_known and not stacks(one, other):
        sequence = as_sequence(one, blocks)
        for item in other.items:
            sequence = recorded_lists.insert_item(blocks, sequence, item)
        return ScriptList(sequence=sequence)
    parts = [part for part in (as_stack(one, blocks), as_stack(other, blocks)) if part is not EMPTY]
    return ScriptList([], torch.cat(parts) if len(parts) > 1 else parts[0] if parts else EMPTY)


@step_of("aten::mul")
def _repeat(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    if isinstance(arguments[0], ScriptList) and isinstance(arguments[1], int) and arguments[0].is_known:
        return ScriptList(arguments[0].items * arguments[1])
    return NotImplemented


@step_of("prim::rangelist")
def _range_list(blocks: Blocks, step: Step, arguments: list[Any]) -> ScriptList:
    return ScriptList(list(range(arguments[0])))


@step_of("aten::dict")
def _new_dict(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """A dict of nothing, of pairs, or of what another dict has."""
    pairs = arguments[0] if arguments else {}
    return dict(known_items(pairs, blocks, *_ONLY_APPENDS) if isinstance(pairs, ScriptList) else pairs)


@step_of("aten::list", "aten::copy")
def _copy(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    value = arguments[0]
    if isinstance(value, ScriptList):
        return ScriptList(list(value.items), value.stack, value.sequence)
    return dict(value) if isinstance(value, dict) else ScriptList(list(value))


@step_of("aten::slice")
def _slice(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    value, start, end, *by = arguments
    if isinstance(value, str):
        _known_places(blocks, start, end, *by)
        return value[start : end if end is not None else len(value) : by[0] if by else 1]
    if not isinstance(value, ScriptList):
        return NotImplemented
    if value.stack is EMPTY:
        return ScriptList()
    by_values = any(map(depends_on_values, (start, end, *by)))
    if by_values and value.is_known and not stacks(value):
        raise blocks.error(
            "the script slices a list at indices that depend on values, and its items differ in size: take items by "
            "index"
        )
    if not value.is_known or by_values:
        return ScriptList([], _slice_of(blocks, as_stack(value, blocks), start, end, by[0] if by else 1))
    return ScriptList(value.items[start : end : by[0] if by else 1])


def _known_places(blocks: Blocks, *places: Any) -> None:
    if any(map(depends_on_values, places)):
        raise blocks.error(
            "the script uses a number that depends on values as a key of a dict, or as an index into a string or a "
            "list of fixed length: use a tensor and index that"
        )


def _slice_of(blocks: Blocks, stack: torch.Tensor, start: Any, end: Any, by: int) -> torch.Tensor:
    if by > 0:
        part: torch.Tensor = torch.ops.aten.slice.Tensor(stack, 0, blocks.number(start), blocks.number(end), by)
        return part
    if (start, end, by) != (None, None, -1):
        raise blocks.error("a list whose length depends on values can be sliced backwards only with [::-1]")
    return stack.flip([0])


@step_of("aten::pop")
def _pop(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    target, place = arguments[0], arguments[1] if len(arguments) > 1 else -1
    if isinstance(target, dict):
        _known_places(blocks, place)
        return target.pop(place)
    if target.sequence is not None:
        taken = recorded_lists.read_item(blocks, target.sequence, place)
        target.sequence = recorded_lists.erase_item(blocks, target.sequence, place)
        return taken
    if target.stack is None and isinstance(place, int):
        if not -len(target.items) <= place < len(target.items):
            raise blocks.error(f"the script calls pop({place}) on a list of {len(target.items)} items")
        return target.items.pop(place)
    if place != -1 or target.stack is EMPTY:
        raise blocks.error(
            "the script pops an item other than the last from a list whose length depends on values: pop the last one"
        )
    last = target.stack[-1]
    target.stack = target.stack[:-1]
    return last


@step_of("aten::clear")
def _clear(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    if isinstance(arguments[0], dict):
        arguments[0].clear()
    else:
        arguments[0].become([])


@step_of("aten::insert")
def _insert(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    target, place, item = arguments
    if target.sequence is not None:
        target.sequence = recorded_lists.insert_item(blocks, target.sequence, item, place)
    else:
        _known_places(blocks, place)
        known_items(target, blocks, *_ONLY_APPENDS).insert(place, item)


@step_of("aten::reverse")
def _reverse(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    target = arguments[0]
    target.items.reverse()
    if not target.is_known and target.stack is not EMPTY:
        target.stack = as_stack(target, blocks).flip([0])


@step_of("aten::Delete")
def _delete(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    target, place = arguments
    _known_places(blocks, place)
    del (target if isinstance(target, dict) else known_items(target, blocks, *_ONLY_APPENDS))[place]


@step_of("aten::keys", "aten::values", "aten::items")
def _of_dict(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    if not isinstance(arguments[0], dict):
        return NotImplemented
    return ScriptList(list(getattr(arguments[0], step.kind.removeprefix("aten::"))()))


@step_of("aten::format")
def _format(blocks: Blocks, step: Step, arguments: list[Any]) -> str:
    text, *values = arguments
    return str(text).format(*map(to_python, values))


@step_of("aten::str")
def _str(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    value = arguments[0]
    return str(value) if isinstance(value, (int, str)) and not isinstance(value, torch.SymInt) else NotImplemented


@step_of("prim::min", "prim::max")
def _extreme(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    name = step.kind.removeprefix("prim::")
    numbers = known_items(arguments[0], blocks, *_ONLY_APPENDS) if isinstance(arguments[0], ScriptList) else arguments
    return functools.reduce(lambda one, other: compute(blocks, name, [one, other], step.returns), numbers)


@step_of("aten::__range_length")
def _range_length(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    first, end, by = arguments
    if all(isinstance(argument, int) for argument in arguments):
        return len(range(first, end, by))
    if not isinstance(by, int):
        raise blocks.error(
            "the step of a range depends on values, but loops in ONNX count by one: loop over the number of steps, and "
            "compute each index from it"
        )
    span = compute(blocks, "sub", [end, first] if by > 0 else [first, end], "int")
    span = compute(blocks, "add", [span, abs(by) - 1], "int")
    return compute(blocks, "floordiv", [span, abs(by)], "int")


@step_of("aten::__derive_index")
def _derive_index(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    number, first, by = arguments
    return compute(blocks, "add", [first, compute(blocks, "mul", [number, by], "int")], "int")
