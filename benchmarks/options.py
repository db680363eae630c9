"""Options that several benchmarks have: the names that are chosen, and the file that measurements are kept in, so that
an invocation that was stopped goes on where it ended.

An option that chooses nothing is used wrongly: exit code 2, and what there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import msgspec
import typer

__all__ = ["KeepOption", "Kept", "choose", "search"]

T = TypeVar("T")
#: How many names are listed.
_SHOWN = 40

#: The option of commands that measure for long.
KeepOption = Annotated[
    Path | None,
    typer.Option(
        help="A file of JSON lines. What it has is not measured again, and what is measured is added to it. "
        "Delete it when the exporter, a package or the machine has changed.",
        dir_okay=False,
    ),
]


class Kept(Generic[T]):
    """Values by their keys. With a path, each is also a line of that file: `{"key": "bert, static", "value": ...}`.

    `kind` is the type of the values; it may be a union, which is not a type to a type checker.
    """

    def __init__(self, path: Path | None, kind: Any) -> None:
        self._path = path
        self._values: dict[str, T] = {}
        if path is None:
            return
        if not path.absolute().parent.is_dir():
            raise typer.BadParameter(f"{path} cannot be written: name a file in a folder that exists")
        try:
            for line in path.read_bytes().splitlines() if path.exists() else ():
                read = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
                self._values[msgspec.json.decode(read["key"], type=str)] = msgspec.json.decode(read["value"], type=kind)
        except (msgspec.DecodeError, KeyError) as error:
            raise typer.BadParameter(f"{path} holds other measurements than this command's: {error}") from error

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __getitem__(self, key: str) -> T:
        return self._values[key]

    def add(self, key: str, value: T) -> None:
        self._values[key] = value
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode({"key": key, "value": value}) + b"\n")


def choose(option: str, asked: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """The names that match one of these names or patterns with * and ?, of which each has to match; all without any."""
    names = list(known)
    for each in asked or ():
        if not any(fnmatchcase(name, each) for name in names):
            raise _nothing(option, each, names)
    return [name for name in names if not asked or any(fnmatchcase(name, each) for each in asked)]


def search(option: str, expression: str, known: Iterable[str]) -> list[str]:
    """The names in which a regular expression is found."""
    names = list(known)
    try:
        found = [name for name in names if re.search(expression, name)]
    except re.error as error:
        raise typer.BadParameter(f"{expression!r} is no regular expression: {error}", param_hint=option) from None
    if not found:
        raise _nothing(option, expression, names)
    return found


def _nothing(option: str, asked: str, names: Sequence[str]) -> typer.BadParameter:
    known = ", ".join(names[:_SHOWN]) + (f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    return typer.BadParameter(f"nothing matches {asked!r}; there are {known}", param_hint=option)
