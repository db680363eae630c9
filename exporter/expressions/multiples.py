"""Sizes whose names say that they are multiples of others: an axis "8*h + 3"."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["Multiple", "multiple_of", "with_bases"]


class Multiple(msgspec.Struct, frozen=True):
    """A size that is a multiple of another one, and an offset."""

    base: str
    factor: int
    offset: int

    def base_of(self, size: int) -> int:
        return (size - self.offset) // self.factor


def multiple_of(name: str) -> Multiple | None:
    """What the name of an axis says of its size, if it is computed from one other size in this way."""
    if name.isidentifier():
        return None
    from onnx_parity.exporter.expressions.parsing import NotACondition, parse_number

    try:
        offset, terms = parse_number(name).terms()
    except NotACondition:
        return None
    if len(terms) != 1:
        return None
    ((base, factor),) = terms
    return Multiple(str(base), factor, offset) if base.is_Symbol and factor > 0 else None


def with_bases(sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes of axes, and those that no axis has itself: of "8*h", also that of h, rounded down."""
    found = dict(sizes)
    for name, size in sizes.items():
        known = multiple_of(name)
        if known is not None:
            found.setdefault(known.base, known.base_of(size))
    return found
