"""Texts about sizes, in words that the program's author knows: torch has symbols for dynamic sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["in_names_of_axes", "renamed"]

#: The name of a symbol of torch: of a dynamic size, and of a number that depends on values.
_SYMBOL = re.compile(r"\b[su]\d+\b")


def in_names_of_axes(text: str, axis_names: Mapping[str, str]) -> str:
    """The text with the names of the axes. A size that is none of theirs, but computed, has no name."""
    return _SYMBOL.sub(lambda symbol: axis_names.get(symbol[0], "a computed size"), text)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text over names of axes, such as "past + sequence", with other names for some of them."""
    if not names:
        return text
    longest_first = "|".join(re.escape(name) for name in sorted(names, key=len)[::-1])
    return re.sub(rf"(?<!\w)(?:{longest_first})(?!\w)", lambda match: names[match[0]], text)
