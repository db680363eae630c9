"""Keyword arguments that a function does not have, with the one that was probably meant."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

__all__ = ["suggesting_keywords"]

_F = TypeVar("_F", bound=Callable[..., Any])


def suggesting_keywords(function: _F) -> _F:
    """A decorator that names the keyword argument that is most like one that does not exist, and that has the word
    `opset` for `opset=13`; all of them if none is like it."""
    names = tuple(name for name in inspect.signature(function).parameters if not name.startswith("_"))
    known = frozenset(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if not known.issuperset(kwargs):
            import difflib  # It takes a millisecond.

            unknown = next(name for name in kwargs if name not in known)
            alike = [name for name in names if unknown in name.split("_")]
            alike = alike or difflib.get_close_matches(unknown, names, 1)
            likely = " or ".join(map(repr, alike[:2]))
            meant = f". Did you mean {likely}?" if alike else f": its parameters are {', '.join(names)}"
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unknown!r}{meant}")
        return function(*args, **kwargs)

    return cast("_F", call)
