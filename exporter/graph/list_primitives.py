"""The primitives on lists, which may be of sizes, and on optionals, for which torch has no operators, and a Python
function for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Primitive

__all__ = [
    "CAT",
    "EMPTY_LIST",
    "ERASE",
    "EXPANDED",
    "INSERT",
    "ITEM",
    "LENGTH",
    "LIST",
    "ON_VALUES",
    "OPTIONAL",
    "PARTS",
    "PRESENCE",
    "STACK",
    "STACKED",
    "TO_LIST",
]

#: The number of items of a list, and one of its items.
LENGTH = Primitive("prim::list_length")
ITEM = Primitive("prim::list_item")
#: A list of given items; an empty list of a dtype; a list of the tensors along the first axis of a tensor.
LIST = Primitive("prim::list")
EMPTY_LIST = Primitive("prim::list_of_none")
TO_LIST = Primitive("prim::tolist")
#: A list of the parts of a tensor along an axis, each of one size but for the last; of an empty axis so many.
PARTS = Primitive("prim::list_of_parts")
#: A list with an item inserted before another or at the end; a list with an item removed.
INSERT = Primitive("prim::list_insert")
ERASE = Primitive("prim::list_erase")
#: The items concatenated along an axis; stacked along a new axis; stacked along a new first axis, also if there are
#: none.
CAT = Primitive("prim::list_cat")
STACK = Primitive("prim::list_stack")
STACKED = Primitive("prim::list_stacked")
#: A tensor of one element, expanded to the sizes in a tensor, whose number may depend on data.
EXPANDED = Primitive("prim::expanded")
#: PRESENCE splits an optional into a flag and its tensor (zeros if it is None); OPTIONAL makes one from both.
PRESENCE = Primitive("prim::presence")
OPTIONAL = Primitive("prim::optional")


def _inserted(items: list[torch.Tensor], item: torch.Tensor, place: Any = None) -> list[torch.Tensor]:
    made = list(items)
    made.insert(len(made) if place is None else int(place), item)
    return made


def _erased(items: list[torch.Tensor], place: Any) -> list[torch.Tensor]:
    made = list(items)
    del made[int(place)]
    return made


def _stacked(items: list[torch.Tensor], none: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.stack(items) if items else torch.zeros([0, *none], dtype=dtype)


#: Each primitive as a Python function on real tensors, which returns one value or a tuple.
ON_VALUES: dict[str, Callable[..., Any]] = {
    LENGTH.name: lambda items: torch.tensor(len(items)),
    ITEM.name: lambda items, place: items[int(place)],
    LIST.name: lambda items: [*items],
    EMPTY_LIST.name: lambda dtype: [],
    TO_LIST.name: lambda stack: list(stack.unbind(0)),
    PARTS.name: lambda whole, size, dim, of_nothing: (
        list(torch.split(whole, int(size), dim)) if whole.shape[dim] else [whole] * int(of_nothing)
    ),
    INSERT.name: _inserted,
    ERASE.name: _erased,
    CAT.name: torch.cat,
    STACK.name: torch.stack,
    STACKED.name: _stacked,
    EXPANDED.name: lambda value, sizes: value.expand(sizes.tolist()),
    PRESENCE.name: lambda given, none: (torch.tensor(True), given),
    OPTIONAL.name: lambda present, value: value if present else None,
}
