"""A context without warnings in one thread: of inputs that were made up, and what a program would do otherwise than for
the example, the user need not know.

`warnings.catch_warnings` changes what all threads do, and can leave it changed where two threads use it at once.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["silent"]


class _OfThread:
    """In a filter of warnings in the place of a regular expression: it matches all texts in the thread that made it."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def match(self, _text: str) -> bool:
        return threading.get_ident() == self._thread


@contextmanager
def silent() -> Iterator[None]:
    """A context in which this thread's warnings are not shown."""
    ours = ("ignore", _OfThread(), Warning, None, 0)
    # The list itself is changed, and changed back, even if the program has put another one into its place meanwhile.
    known = warnings.filters
    known.insert(0, ours)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        with suppress(ValueError):  # A program may have called `resetwarnings`.
            known.remove(ours)  # type: ignore[attr-defined]
