"""Columns: one leaf of each item of a list that a loop has filled, as a tensor of the recording.

Leaves of one shape are stacked along the first axis. Where their sizes differ, the column is a list of the model (see
`recording/recorded_lists.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import torch

from onnx_parity.exporter.graph.graph import same_size
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.recording import recorded_lists
from onnx_parity.exporter.recording.blocks import Blocks, Iteration
from onnx_parity.exporter.recording.leaves import EMPTY, Leaf, is_number, share_memory
from onnx_parity.exporter.recording.lost_writes import watch_copies
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller
from onnx_parity.exporter.torch_inside.this_thread import recorder_here

__all__ = [
    "added_item",
    "append_to_column",
    "as_list",
    "extended_column",
    "is_list",
    "item_of_column",
    "joined_items",
    "length_of_column",
    "pieces_as_list",
]

asks_for_its_caller(__file__)

_Parameters = ParamSpec("_Parameters")


def is_list(column: Any) -> bool:
    if not isinstance(column, torch.Tensor):
        return False
    blocks = Blocks(recorder_here())
    return blocks.recorder.value_of(blocks.take(column)).holds.is_list


def _watched(make: Callable[_Parameters, torch.Tensor]) -> Callable[_Parameters, torch.Tensor]:
    """A function whose result has copies of what the program has as one with the arguments."""

    @functools.wraps(make)
    def watched(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> torch.Tensor:
        made = make(*args, **kwargs)
        sources = [each for each in args if isinstance(each, torch.Tensor) and not share_memory(each, made)]
        watch_copies(recorder_here(), made, sources)
        return made

    return watched


@_watched
def as_list(column: torch.Tensor) -> torch.Tensor:
    """A column as a list of the model."""
    return column if is_list(column) else recorded_lists.unstack(Blocks(recorder_here()), column)


def length_of_column(column: torch.Tensor) -> Any:
    blocks = Blocks(recorder_here())
    return blocks.number(recorded_lists.read_length(blocks, column)) if is_list(column) else column.shape[0]


@_watched
def item_of_column(column: torch.Tensor, place: Any) -> torch.Tensor:
    return recorded_lists.read_item(Blocks(recorder_here()), column, place) if is_list(column) else column[place]


@_watched
def pieces_as_list(whole: torch.Tensor, size: int, axis: int) -> torch.Tensor:
    """The pieces of a tensor along an axis, as a list of the model."""
    return recorded_lists.split_tensor(Blocks(recorder_here()), whole, size, axis)


def append_to_column(blocks: Blocks, column: Leaf, leaves: Sequence[torch.Tensor]) -> torch.Tensor:
    """A list of the model with more items at its end."""
    for leaf in leaves:
        if leaf.dtype.is_complex:
            raise blocks.error(
                "a loop over a dynamic size fills a list with complex tensors whose sizes differ: put "
                "torch.view_as_real of them into it"
            )
        column = recorded_lists.insert_item(blocks, column, leaf)
    assert isinstance(column, torch.Tensor)
    return column


@_watched
def extended_column(column: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The items of two columns, one after the other."""
    is_of_list = is_list(other)
    if not is_of_list and not is_list(column) and _are_alike(column, other):
        return torch.cat([column, other])
    blocks = Blocks(recorder_here())
    made = as_list(column)
    if not is_of_list and isinstance(other.shape[0], int):
        return append_to_column(blocks, made, [*other]) if other.shape[0] else made

    def body(number: torch.Tensor, carried: Sequence[Any], shared: Sequence[torch.Tensor]) -> Iteration:
        return Iteration(True, [append_to_column(blocks, carried[0], [item_of_column(other, blocks.number(number))])])

    ends, _ = blocks.loop(length_of_column(other), True, [made], body, varying=[True])
    joined: torch.Tensor = ends[0]
    return joined


@_watched
def replaced_in_column(column: torch.Tensor, item: torch.Tensor, place: Any) -> torch.Tensor:
    """A column with another leaf, which a column of one has, at a place."""
    if item.dtype is not column.dtype:
        raise refused_here(
            f"the program puts {item.dtype} into a list of {column.dtype} that has as many items as a dynamic size "
            "says: convert it first"
        )
    if is_list(column) or not _are_alike(column, item):
        return recorded_lists.replace_item(Blocks(recorder_here()), as_list(column), place, item[0])
    return column.index_copy(0, torch.tensor([place]), item)


@_watched
def changed_column(column: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Other items of a column: those whose places a function makes of all places."""
    if not is_list(column):
        return change(column)
    places = change(torch.arange(length_of_column(column)))
    blocks = Blocks(recorder_here())

    def body(number: torch.Tensor, carried: Sequence[Any], shared: Sequence[torch.Tensor]) -> Iteration:
        item = recorded_lists.read_item(blocks, column, places[blocks.number(number)])
        return Iteration(True, [append_to_column(blocks, carried[0], [item])])

    ends, _ = blocks.loop(places.shape[0], True, [EMPTY], body)
    chosen: torch.Tensor = ends[0]
    return chosen


def joined_items(column: torch.Tensor, axis: int, *, new_axis: bool) -> torch.Tensor:
    """All leaves in one tensor, along an axis that is there or a new one."""
    if is_list(column):
        return recorded_lists.join_items(Blocks(recorder_here()), column, axis, new_axis=new_axis)
    axis %= column.ndim - (not new_axis)
    whole = column.movedim(0, axis) if axis else column
    return whole if new_axis else whole.flatten(axis, axis + 1)


def _are_alike(column: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the items of two columns that are stacked have the same sizes."""
    return column.ndim == other.ndim and all(map(same_size, column.shape[1:], other.shape[1:]))


def added_item(blocks: Blocks, leaf: Leaf) -> torch.Tensor:
    """A leaf that a loop adds to a list, as a tensor."""
    if not isinstance(leaf, torch.Tensor) and not is_number(leaf):
        raise blocks.error(
            f"a loop over a dynamic size adds {leaf!r} to a list: it can add tensors, numbers, and tuples of these"
        )
    if is_list(leaf):
        raise blocks.error(
            "a loop over a dynamic size adds a list of tensors whose sizes differ to a list: join its tensors "
            "first, with torch.cat"
        )
    return blocks.as_tensor(leaf)
