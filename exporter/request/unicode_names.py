"""Names that ONNX can hold: it keeps them as UTF-8, and strings of Python may hold halves of characters."""

from __future__ import annotations

from onnx_parity.exporter.errors import ArgumentError

__all__ = ["checked_unicode"]


def checked_unicode(what: str, name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ArgumentError(
            f"{what} holds {name!r}, which is not valid Unicode: ONNX keeps names as UTF-8. Give another name"
        ) from None
    return name
