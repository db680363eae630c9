"""How other people's texts are cut to what a reader of one line wants."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def plain(text: str) -> str:
    """The text without colours; halves of characters, which no file takes, are written out."""
    return _ANSI.sub("", text).encode("utf-8", "backslashreplace").decode("utf-8")


def one_line(text: str) -> str:
    """The first line that says something, without colours."""
    return next((line.strip() for line in plain(text).splitlines() if line.strip()), "")
