"""Writes a set of opsets as ranges."""

from __future__ import annotations

from collections.abc import Iterable


def opset_ranges(opsets: Iterable[int], *, dash: str = "-") -> str:
    """(7, 8, 9, 13) as `7-9, 13`."""
    ranges: list[list[int]] = []
    for opset in sorted(set(opsets)):
        if ranges and opset == ranges[-1][1] + 1:
            ranges[-1][1] = opset
        else:
            ranges.append([opset, opset])
    return ", ".join(str(first) if first == last else f"{first}{dash}{last}" for first, last in ranges)
