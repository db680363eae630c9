"""Runs a function in copies of this process, so that what ends a process ends only that copy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

__all__ = ["run_in_copies"]

_Item = TypeVar("_Item")
#: How many items one copy works on: memory that they leave is freed with it.
_AT_ONCE = 40


def run_in_copies(items: Sequence[_Item], work: Callable[[_Item], list[str]]) -> Iterator[tuple[_Item, list[str]]]:
    """Each item with what a function returns for it. Where that ends the process, it is one line that says so."""
    start = 0
    while start < len(items):
        some = items[start : start + _AT_ONCE]
        done = 0
        for done, answer in enumerate(_answers(some, work), start=1):
            yield some[done - 1], answer
        if done < len(some):
            yield some[done], ["ended", f"the process ends by {some[done]}"]
            done += 1
        start += done


def _answers(items: Sequence[_Item], work: Callable[[_Item], list[str]]) -> Iterator[list[str]]:
    """The answers of a copy of this process, up to the item at which it ends."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        status = 1
        try:
            with os.fdopen(write, "wb") as pipe:
                for item in items:
                    pipe.write(msgspec.json.encode(work(item)) + b"\n")
                    pipe.flush()
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        for line in pipe:
            yield msgspec.json.decode(line, type=list[str])
    os.waitpid(child, 0)
