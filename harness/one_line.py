"""Shortening messages of other programs to one line."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def plain(text: str) -> str:
    """The text without terminal colours; unpaired surrogates, which cannot be written as UTF-8, become escapes."""
    return _ANSI.sub("", text).encode("utf-8", "backslashreplace").decode("utf-8")


def one_line(text: str) -> str:
    """The first line that is not blank, without colours, and the next one if the first announces it with a colon."""
    lines = (line.strip() for line in plain(text).splitlines() if line.strip())
    first = next(lines, "")
    return f"{first} {next(lines, '')}".rstrip() if first.endswith(":") else first


def error_line(error: BaseException) -> str:
    """An error in one line: `ValueError: the first line of its message`."""
    return f"{type(error).__name__}: {one_line(str(error))}"
