"""Recorded lists whose items differ in size, and so cannot be stacked: each list is one value of the graph.

Operations on lists are the primitives of `graph/list_primitives.py`, which are lowered to ONNX's operators on
sequences. In a recording a list is represented by a fake tensor with the shape of an item; a size that differs from
item to item is a symbol that is never read. If the number of axes differs too, the shape is that of some item.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.dispatch.gradients import refuse_to_differentiate
from onnx_parity.exporter.graph import list_primitives
from onnx_parity.exporter.graph.graph import Holds, Primitive, Size, Value, same_size
from onnx_parity.exporter.recording.leaves import EMPTY, Leaf, Leaves
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor

__all__ = [
    "erase_item",
    "expand",
    "insert_item",
    "join_items",
    "make_empty_list",
    "make_list",
    "read_item",
    "read_length",
    "replace_item",
    "split_tensor",
    "unstack",
]


#: What has no derivative here.
_WHAT = "a list whose length depends on data"


def read_length(leaves: Leaves, items: Leaf) -> Leaf:
    """The number of items, as a tensor of one int."""
    if items is EMPTY:
        return 0
    return _record(leaves, list_primitives.LENGTH, {"items": _value(leaves, items)}, torch.int64, ())


def read_item(leaves: Leaves, items: Leaf, place: Leaf) -> torch.Tensor:
    _refuse_empty(leaves, items)
    value = _value(leaves, items)
    holds = Holds.ANY_RANK if value.holds is Holds.LIST_OF_ANY_RANK else Holds.TENSOR
    arguments = {"items": value, "place": leaves.value(place)}
    return _record(leaves, list_primitives.ITEM, arguments, items.dtype, _any_item(leaves, items), holds)


def make_list(leaves: Leaves, items: Sequence[torch.Tensor]) -> torch.Tensor:
    """A list of the given items, of which there is at least one."""
    refuse_to_differentiate(_WHAT, items)
    taken = [leaves.take(item) for item in items]
    first = taken[0]
    for item in taken[1:]:
        if item.dtype is not first.dtype:
            raise leaves.error(
                "a list whose length depends on data has tensors of several dtypes: give all its tensors the same "
                "dtype, as ONNX requires"
            )
    values = [leaves.recorder.value_of(item) for item in taken]
    if any(value.holds.has_any_rank or len(value.shape) != first.ndim for value in values):
        return _of_any_rank(leaves, list_primitives.LIST, {"items": values}, first)
    shapes: list[Sequence[Size]] = [item.shape for item in taken]
    shape = [
        sizes[0]
        if isinstance(sizes[0], int) and all(same_size(sizes[0], size) for size in sizes)
        else leaves.new_size(sizes[0])
        for sizes in zip(*shapes, strict=True)
    ]
    return _record(leaves, list_primitives.LIST, {"items": values}, first.dtype, shape, Holds.LIST)


def make_empty_list(leaves: Leaves, dtype: torch.dtype) -> torch.Tensor:
    return _record(leaves, list_primitives.EMPTY_LIST, {"dtype": dtype}, dtype, (), Holds.LIST_OF_ANY_RANK)


def unstack(leaves: Leaves, stack: torch.Tensor) -> torch.Tensor:
    """A list of the tensors along the first axis of a tensor."""
    arguments = {"stack": _value(leaves, stack)}
    return _record(leaves, list_primitives.TO_LIST, arguments, stack.dtype, stack.shape[1:], Holds.LIST)


def split_tensor(leaves: Leaves, whole: torch.Tensor, size: Leaf, axis: int, of_nothing: Leaf = 1) -> torch.Tensor:
    """A list of the parts of a tensor along an axis, each of this size but for the last; of an empty axis so many."""
    arguments: dict[str, Any] = {"whole": _value(leaves, whole), "dim": axis}
    arguments |= {"size": leaves.value(size), "of_nothing": leaves.value(of_nothing)}
    shape: list[Size] = [*leaves.take(whole).shape]
    shape[axis] = leaves.new_size(shape[axis])
    return _record(leaves, list_primitives.PARTS, arguments, whole.dtype, shape, Holds.LIST)


def insert_item(leaves: Leaves, items: Leaf, item: torch.Tensor, place: Leaf = None) -> torch.Tensor:
    """The list with another item, inserted at an index or at the end."""
    if items is EMPTY:
        return make_list(leaves, [item])
    items, item = leaves.settled([items, item])
    if item.dtype is not items.dtype:
        raise leaves.error(
            f"a list of {items.dtype} tensors gets one of {item.dtype}: give all its tensors the same dtype, as ONNX "
            "requires"
        )
    arguments: dict[str, Any] = {"items": _value(leaves, items), "item": _value(leaves, item)}
    if place is not None:
        arguments["place"] = leaves.value(place)
    if item.ndim != items.ndim or any(arguments[name].holds.has_any_rank for name in ("items", "item")):
        return _of_any_rank(leaves, list_primitives.INSERT, arguments, items)
    shape = [
        size if isinstance(size, int) and size == other else leaves.new_size(size)
        for size, other in zip(items.shape, item.shape, strict=True)
    ]
    return _record(leaves, list_primitives.INSERT, arguments, items.dtype, shape, Holds.LIST)


def erase_item(leaves: Leaves, items: Leaf, place: Leaf) -> torch.Tensor:
    _refuse_empty(leaves, items)
    value = _value(leaves, items)
    arguments = {"items": value, "place": leaves.value(place)}
    return _record(leaves, list_primitives.ERASE, arguments, items.dtype, items.shape, value.holds)


def replace_item(leaves: Leaves, items: Leaf, place: Leaf, item: torch.Tensor) -> torch.Tensor:
    """The list with the item at an index replaced."""
    if isinstance(place, int) and place < 0:
        place = read_length(leaves, items) + place
    return erase_item(leaves, insert_item(leaves, items, item, place), place + 1)


def join_items(leaves: Leaves, items: Leaf, axis: int, *, new_axis: bool) -> torch.Tensor:
    """All items in one tensor: `torch.cat`, or `torch.stack` along a new axis."""
    _refuse_empty(leaves, items)
    if _value(leaves, items).holds is Holds.LIST_OF_ANY_RANK:
        raise leaves.error(
            "the script concatenates or stacks a list whose tensors differ in their number of axes: give all its "
            "tensors the same number of axes, or take them by index"
        )
    shape = _any_item(leaves, items)
    axis %= items.ndim + new_axis
    if new_axis:
        shape.insert(axis, leaves.new_size(2))
    else:
        shape[axis] = leaves.new_size(2)
    kind = list_primitives.STACK if new_axis else list_primitives.CAT
    return _record(leaves, kind, {"tensors": _value(leaves, items), "dim": axis}, items.dtype, shape)


def expand(leaves: Leaves, value: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """A tensor of one element, expanded to the sizes in a list whose length depends on values."""
    count = sizes.shape[0]
    symbols = leaves.recorder.fakes.symbols
    if isinstance(count, torch.SymInt):
        assert symbols is not None
        count = int(symbols.number_in_example(count, {})) if symbols.is_in_example(count) else 2
    shape = [leaves.new_size(2) for _ in range(count)]
    arguments = {"value": _value(leaves, value), "sizes": _value(leaves, sizes)}
    return _record(leaves, list_primitives.EXPANDED, arguments, value.dtype, shape, Holds.ANY_RANK)


def _refuse_empty(leaves: Leaves, items: Leaf) -> None:
    if items is EMPTY:
        raise leaves.error(
            "the script takes an item out of an empty list, or concatenates its items: do so only if it has items"
        )


def _any_item(leaves: Leaves, items: torch.Tensor) -> list[Size]:
    """The sizes of an item. For sizes that differ between items, each access to an item creates new symbols."""
    sizes: Sequence[Size] = leaves.take(items).shape
    return [size if isinstance(size, int) else leaves.new_size(size) for size in sizes]


def _of_any_rank(leaves: Leaves, kind: Primitive, arguments: dict[str, Any], like: torch.Tensor) -> torch.Tensor:
    """A list whose tensors differ in their number of axes."""
    return _record(leaves, kind, arguments, like.dtype, _any_item(leaves, like), Holds.LIST_OF_ANY_RANK)


def _value(leaves: Leaves, tensor: torch.Tensor) -> Value:
    refuse_to_differentiate(_WHAT, [tensor])
    return leaves.recorder.value_of(leaves.take(tensor))


def _record(
    leaves: Leaves,
    kind: Primitive,
    arguments: dict[str, Any],
    dtype: torch.dtype,
    shape: Sequence[Size],
    holds: Holds = Holds.TENSOR,
) -> torch.Tensor:
    made: FakeTensor = leaves.recorder.stand_in(dtype, shape, holds=holds)
    leaves.recorder.add(kind, arguments, [made])
    given: torch.Tensor = leaves.give(made)
    return given
