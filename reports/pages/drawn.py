"""The drawings of cases as pieces: each of about a megabyte, so that a page that shows one loads little else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from onnx_parity.harness.escaping import markup_text

_BYTES_OF_A_PIECE = 1 << 20
_KEY = ("kind", "family", "name", "case")


def drawn_pieces(
    drawings: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[list[tuple[str, ...]], list[Any]]]:
    """The keys of the cases and the drawings of each piece."""
    keys: list[tuple[str, ...]] = []
    piece: list[Any] = []
    size = 0
    for drawing in drawings:
        keys.append(tuple(drawing[part] for part in _KEY))
        piece.append(shown(drawing))
        size += len(msgspec.json.encode(drawing))
        if size >= _BYTES_OF_A_PIECE:
            yield keys, piece
            keys, piece, size = [], [], 0
    if piece:
        yield keys, piece


def shown(value: Any) -> Any:
    """The same without characters that HTML forbids, in all its texts."""
    if isinstance(value, str):
        return markup_text(value)
    if isinstance(value, Mapping):
        return {shown(key): shown(each) for key, each in value.items()}
    return [shown(each) for each in value] if isinstance(value, list | tuple) else value
