"""Steps that read all items of lists and dicts: methods such as `sort` and `update`, and builtins such as `sum`."""

from __future__ import annotations

import functools
from typing import Any

import torch

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.recording.leaves import Leaf
from onnx_parity.exporter.script.numbers import compute, depends_on_values
from onnx_parity.exporter.script.parse import Step
from onnx_parity.exporter.script.steps import step_of
from onnx_parity.exporter.script.steps_comparing import equal
from onnx_parity.exporter.script.values import ScriptList, as_stack, known_items

# --- builtins ---------------------------------------------------------------------------------------------------------


@step_of("aten::sum")
def _sum(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    if not isinstance(arguments[0], ScriptList) or step.operator is not None:
        return NotImplemented
    items = _items(blocks, arguments[0])
    zero: Leaf = 0.0 if step.returns == "float" else 0
    return functools.reduce(lambda one, other: compute(blocks, "add", [one, other], step.returns), items, zero)


@step_of("aten::any", "aten::all")
def _any_or_all(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    if not isinstance(arguments[0], ScriptList) or step.operator is not None:
        return NotImplemented
    name, start = ("__or__", False) if step.kind == "aten::any" else ("__and__", True)
    truths = [blocks.truth(item) for item in _items(blocks, arguments[0])]
    return functools.reduce(lambda one, other: compute(blocks, name, [one, other], "bool"), truths, start)


@step_of("aten::divmod")
def _divmod(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    returns = str(next(step.node.outputs()).type())
    return tuple(compute(blocks, name, arguments, returns) for name in ("floordiv", "remainder"))


# --- lists ------------------------------------------------------------------------------------------------------------


@step_of("aten::sort", "aten::sorted")
def _sort(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """`sort` works in place and `sorted` does not. Numbers that depend on values are sorted as a tensor."""
    value, *options = arguments
    if not isinstance(value, ScriptList) or step.operator is not None:
        return NotImplemented
    backwards = bool(options[0]) if options else False
    items = _items(blocks, value)
    if not any(map(depends_on_values, items)):
        ordered = sorted(items, reverse=backwards)
    else:
        ordered = list(torch.sort(as_stack(value, blocks), descending=backwards)[0].unbind(0))
    if step.kind == "aten::sorted":
        return ScriptList(ordered)
    value.items = ordered
    return None


@step_of("aten::index")
def _index_of(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    if not isinstance(arguments[0], ScriptList) or step.operator is not None:
        return NotImplemented
    same = _same(blocks, *arguments)
    for place, each in enumerate(same):
        if each is True:
            same, known = same[:place], place
            break
    else:
        known = len(same)
    if known == len(arguments[0].items) and not any(isinstance(each, torch.Tensor) for each in same):
        raise blocks.error(f"the script calls index({arguments[1]!r}) on a list that does not contain it")
    found: Leaf = known
    for place in reversed([number for number, each in enumerate(same) if isinstance(each, torch.Tensor)]):
        found = torch.where(same[place], place, blocks.as_tensor(found))
    return found


@step_of("aten::count")
def _count(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    if not isinstance(arguments[0], ScriptList):
        return NotImplemented
    same = _same(blocks, *arguments)
    return functools.reduce(lambda one, other: compute(blocks, "add", [one, other], "int"), map(_as_int, same), 0)


def _as_int(truth: Leaf) -> Leaf:
    return truth.to(torch.int64) if isinstance(truth, torch.Tensor) else int(truth)


@step_of("aten::remove")
def _remove(blocks: Blocks, step: Step, arguments: list[Any]) -> None:
    value, item = arguments
    for place, same in enumerate(_same(blocks, value, item)):
        if same is True:
            del value.items[place]
            return
        if same is not False:
            raise blocks.error(
                "the script removes an item that depends on values from a list: build a new list in a loop instead"
            )
    raise blocks.error(f"the script calls remove({item!r}) on a list that does not contain it")


def _same(blocks: Blocks, value: ScriptList, item: Any) -> list[Leaf]:
    return [equal(blocks, each, item) for each in _items(blocks, value)]


def _items(blocks: Blocks, value: ScriptList) -> list[Any]:
    return known_items(value, blocks, "uses all items of", "use a loop, or a tensor")


# --- dicts ------------------------------------------------------------------------------------------------------------


@step_of("aten::update")
def _update(blocks: Blocks, step: Step, arguments: list[Any]) -> None:
    arguments[0].update(arguments[1])


@step_of("aten::setdefault")
def _set_default(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return arguments[0].setdefault(arguments[1], arguments[2])


@step_of("aten::popitem")
def _pop_item(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    if not arguments[0]:
        raise blocks.error("the script calls popitem on an empty dict")
    return arguments[0].popitem()
