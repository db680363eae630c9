"""Recorded lists whose items differ in size, and so cannot be stacked: each list is one value of the graph.

Operations on lists are the primitives of `graph/list_primitives.py`, which are lowered to ONNX's operators on
sequences. In a recording a list is represented by a fake tensor with the shape of an item; a size that differs from
item to item is a symbol that is never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from onnx_parity.exporter.capture.graph import list_primitives
from onnx_parity.exporter.capture.graph.graph import Holds, Primitive, Size, same_size
from onnx_parity.exporter.capture.record.leaves import EMPTY, Leaf, Leaves

__all__ = ["erased", "inserted", "item_of", "joined", "length_of", "list_of", "parts_of", "replaced"]


def length_of(leaves: Leaves, items: Leaf) -> Leaf:
    """The number of items, as a tensor of one int."""
    if items is EMPTY:
        return 0
    return _recorded(leaves, list_primitives.LENGTH, {"items": _value(leaves, items)}, torch.int64, ())


def item_of(leaves: Leaves, items: Leaf, place: Leaf) -> torch.Tensor:
    _refuse_empty(leaves, items)
    arguments = {"items": _value(leaves, items), "place": leaves.value(place)}
    return _recorded(leaves, list_primitives.ITEM, arguments, items.dtype, _any_item(leaves, items))


def list_of(leaves: Leaves, items: Sequence[torch.Tensor]) -> torch.Tensor:
    """A list of the given items, of which there is at least one."""
    taken = [leaves.take(item) for item in items]
    first = taken[0]
    for item in taken[1:]:
        if item.dtype is not first.dtype or item.ndim != first.ndim:
            raise leaves.error(
                "a list whose length depends on data has tensors of several dtypes or numbers of axes: give all its "
                "tensors the same dtype and number of axes, as ONNX requires"
            )
    shapes: list[Sequence[Size]] = [item.shape for item in taken]
    shape = [
        sizes[0]
        if isinstance(sizes[0], int) and all(same_size(sizes[0], size) for size in sizes)
        else leaves.new_size(sizes[0])
        for sizes in zip(*shapes, strict=True)
    ]
    values = [leaves.recorder.value_of(item) for item in taken]
    return _recorded(leaves, list_primitives.LIST, {"items": values}, first.dtype, shape, Holds.LIST)


def parts_of(leaves: Leaves, stack: torch.Tensor) -> torch.Tensor:
    """A list of the tensors along the first axis of a tensor."""
    arguments = {"stack": _value(leaves, stack)}
    return _recorded(leaves, list_primitives.TO_LIST, arguments, stack.dtype, stack.shape[1:], Holds.LIST)


def inserted(leaves: Leaves, items: Leaf, item: torch.Tensor, place: Leaf = None) -> torch.Tensor:
    """The list with another item, inserted at an index or at the end."""
    if items is EMPTY:
        return list_of(leaves, [item])
    if item.dtype is not items.dtype or item.ndim != items.ndim:
        raise leaves.error(
            f"a list of {items.dtype} tensors of {items.ndim} axes gets one of {item.dtype} and {item.ndim} axes: give "
            "all its tensors the same dtype and number of axes, as ONNX requires"
        )
    arguments: dict[str, Any] = {"items": _value(leaves, items), "item": _value(leaves, item)}
    if place is not None:
        arguments["place"] = leaves.value(place)
    shape = [
        size if isinstance(size, int) and size == other else leaves.new_size(size)
        for size, other in zip(items.shape, item.shape, strict=True)
    ]
    return _recorded(leaves, list_primitives.INSERT, arguments, items.dtype, shape, Holds.LIST)


def erased(leaves: Leaves, items: Leaf, place: Leaf) -> torch.Tensor:
    _refuse_empty(leaves, items)
    arguments = {"items": _value(leaves, items), "place": leaves.value(place)}
    return _recorded(leaves, list_primitives.ERASE, arguments, items.dtype, items.shape, Holds.LIST)


def replaced(leaves: Leaves, items: Leaf, place: Leaf, item: torch.Tensor) -> torch.Tensor:
    """The list with the item at an index replaced."""
    if isinstance(place, int) and place < 0:
        place = length_of(leaves, items) + place
    return erased(leaves, inserted(leaves, items, item, place), place + 1)


def joined(leaves: Leaves, items: Leaf, axis: int, *, new_axis: bool) -> torch.Tensor:
    """All items in one tensor: `torch.cat`, or `torch.stack` along a new axis."""
    _refuse_empty(leaves, items)
    shape = _any_item(leaves, items)
    axis %= items.ndim + new_axis
    if new_axis:
        shape.insert(axis, leaves.new_size(2))
    else:
        shape[axis] = leaves.new_size(2)
    kind = list_primitives.STACK if new_axis else list_primitives.CAT
    return _recorded(leaves, kind, {"tensors": _value(leaves, items), "dim": axis}, items.dtype, shape)


def _refuse_empty(leaves: Leaves, items: Leaf) -> None:
    if items is EMPTY:
        raise leaves.error(
            "the script takes an item out of an empty list, or concatenates its items: do so only if it has items"
        )


def _any_item(leaves: Leaves, items: torch.Tensor) -> list[Size]:
    """The sizes of an item. For sizes that differ between items, each access to an item creates new symbols."""
    sizes: Sequence[Size] = leaves.take(items).shape
    return [size if isinstance(size, int) else leaves.new_size(size) for size in sizes]


def _value(leaves: Leaves, tensor: torch.Tensor) -> Any:
    return leaves.recorder.value_of(leaves.take(tensor))


def _recorded(
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
