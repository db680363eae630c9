"""Regular expressions that take no exponential time, whatever text they are searched in."""

from __future__ import annotations

import functools
import re
from re import _constants as codes  # type: ignore[attr-defined]  # not public, and the only parser of this syntax
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

__all__ = ["bounded"]

#: A repeat of at most this many counts as written out.
_FEW = 16
_LONGEST = 500
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)


@functools.cache
def bounded(pattern: str) -> re.Pattern[str]:
    """The compiled pattern. Raises re.error if a repeated part contains a repeat or a choice, as in `(a+)+`."""
    if len(pattern) > _LONGEST:
        raise re.error(f"a pattern has at most {_LONGEST} characters")
    if _explodes(parser.parse(pattern), within=False):
        raise re.error(
            "a repeated part must not contain another repeat or a choice, as in (a+)+ and (a|b)*, which may take "
            "forever; write [ab]*"
        )
    return re.compile(pattern)


def _explodes(parsed: Any, *, within: bool) -> bool:
    """Whether a repeat or a choice is inside of a repeat. `within` means that the part itself is inside of one."""
    for code, argument in parsed:
        if code in _REPEATS:
            many = argument[1] > _FEW
            if (many and within) or _explodes(argument[2], within=within or many):
                return True
        elif code is codes.BRANCH:
            if within or any(_explodes(each, within=within) for each in argument[1]):
                return True
        elif any(_explodes(each, within=within) for each in _parts(argument)):
            return True
    return False


def _parts(argument: Any) -> list[Any]:
    """The patterns among the arguments of a group, an assertion or a condition."""
    if isinstance(argument, parser.SubPattern):
        return [argument]
    if isinstance(argument, tuple):
        return [each for each in argument if isinstance(each, parser.SubPattern)]
    return []
