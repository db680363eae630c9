"""A list of the program as an iteration of a loop finds it, which tells whether the iteration reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["WatchedList"]


class WatchedList(list[Any]):
    """A list of the program within an iteration, which tells whether it was read, or changed otherwise than at its end.

    The program finds in it what it had before the loop, and what this iteration has added.
    """

    is_read = False
    #: Whether it was read at a place that differs between iterations.
    is_looked_up = False
    #: The loop that watches it, and the list in whose place it is.
    owner: object
    stands_for: list[Any]

    def __getitem__(self, place: Any) -> Any:
        self.is_read = True
        if type(place) is not torch.SymInt or not list.__len__(self):
            return list.__getitem__(self, place)
        # The iteration runs again, with a list of the model. Any item will do for now.
        self.is_looked_up = True
        return list.__getitem__(self, -1)

    def added(self, known: int) -> list[Any]:
        return [*list.__getitem__(self, slice(known, None))]


def _reading(name: str) -> Callable[..., Any]:
    method = getattr(list, name)

    def call(self: WatchedList, *args: Any) -> Any:
        self.is_read = True
        return method(self, *args)

    return call


for _name in (
    "__add__", "__contains__", "__delitem__", "__eq__", "__iter__", "__len__", "__mul__",
    "__reversed__", "clear", "copy", "count", "index", "insert", "pop", "remove", "reverse", "sort",
):  # fmt: skip
    setattr(WatchedList, _name, _reading(_name))
