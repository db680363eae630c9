"""Checks names. ONNX stores them as UTF-8, but Python strings may contain surrogates, which UTF-8 cannot encode."""

from __future__ import annotations

from onnx_parity.exporter.errors import ArgumentError

__all__ = ["checked_unicode"]


def checked_unicode(what: str, name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ArgumentError(
            f"{what} contains {name!r}, which is not valid Unicode: ONNX stores names as UTF-8. Give another name"
        ) from None
    return name
