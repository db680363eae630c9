"""What an option of a benchmark chooses. One that chooses nothing is used wrongly: exit code 2, and what there is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import typer

__all__ = ["choose", "search"]

#: How many names are listed.
_SHOWN = 40


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
