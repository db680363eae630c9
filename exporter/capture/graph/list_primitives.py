"""The primitives on lists and on optionals, for which torch has no operators, and what each computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnx_parity.exporter.capture.graph.graph import Primitive

__all__ = [
    "CAT",
    "EMPTY_LIST",
    "ERASE",
    "INSERT",
    "ITEM",
    "LENGTH",
    "LIST",
    "ON_VALUES",
    "OPTIONAL",
    "PRESENCE",
    "STACK",
    "STACKED",
    "TO_LIST",
]

#: How many items a list has, and one of them.
LENGTH = Primitive("prim::list_length")
ITEM = Primitive("prim::list_item")
#: A list of known items; of none, like another one; of the parts of a tensor.
LIST = Primitive("prim::list")
EMPTY_LIST = Primitive("prim::list_of_none")
TO_LIST = Primitive("prim::tolist")
#: A list with one item more, at the end or before another, or one less.
INSERT = Primitive("prim::list_insert")
ERASE = Primitive("prim::list_erase")
#: The items joined along an axis; along a new one; and along a new first one, where there may be none.
CAT = Primitive("prim::list_cat")
STACK = Primitive("prim::list_stack")
STACKED = Primitive("prim::list_stacked")
#: Whether there is something, and what, or zeros; and the way back.
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


#: What each gives where everything is known; one value, or a tuple.
ON_VALUES: dict[str, Callable[..., Any]] = {
    LENGTH.name: lambda items: torch.tensor(len(items)),
    ITEM.name: lambda items, place: items[int(place)],
    LIST.name: lambda items: [*items],
    EMPTY_LIST.name: lambda dtype: [],
    TO_LIST.name: lambda stack: list(stack.unbind(0)),
    INSERT.name: _inserted,
    ERASE.name: _erased,
    CAT.name: torch.cat,
    STACK.name: torch.stack,
    STACKED.name: _stacked,
    PRESENCE.name: lambda given, none: (torch.tensor(True), given),
    OPTIONAL.name: lambda present, value: value if present else None,
}
