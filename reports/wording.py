"""Texts of the pages: figures, dates, lists of opsets, and long messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.opset_ranges import opset_ranges as _opset_ranges

#: A long message is shown with this many characters of its beginning and its end.
MESSAGE_HEAD, MESSAGE_TAIL = 3000, 1000

_DIGITS = re.compile(r"(\d+)")


def thousands(number: int) -> str:
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    return f"{thousands(number)} {noun}" if number == 1 else f"{thousands(number)} {noun}s"


def duration(seconds: float) -> str:
    if seconds >= 90:
        return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def instant(iso: str) -> str:
    """`2026-01-31T10:15:00Z` as `31 January 2026, 10:15 UTC`; other texts are returned unchanged."""
    try:
        moment = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def opset_ranges(opsets: Iterable[int]) -> str:
    """`7, 8, 9, 12` as `7–9, 12`."""
    return _opset_ranges(opsets, dash="–")


def opsets_named(opsets: Iterable[int]) -> str:
    distinct = set(opsets)
    return f"opset{'' if len(distinct) == 1 else 's'} {opset_ranges(distinct)}"


def shortened(text: str, longest: int = 240) -> str:
    line = " ".join(markup_text(text).split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def message_excerpt(text: str) -> str:
    """The message, or the beginning and the end of one that is too long for a page."""
    text = markup_text(text)
    left_out = len(text) - MESSAGE_HEAD - MESSAGE_TAIL
    if left_out <= 0:
        return text
    return (
        f"{text[:MESSAGE_HEAD]}\n\n"
        f"[… {thousands(left_out)} characters are left out; the run's records-*.jsonl contain them …]\n\n"
        f"{text[-MESSAGE_TAIL:]}"
    )


def natural(text: str) -> list[tuple[int, str]]:
    """A sorting key with which `topk[k=2]` comes before `topk[k=10]`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(text)]
