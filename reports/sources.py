"""The source of a declaration, if its file is here and it still is what ran."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from onnx_parity.harness.record import Record
from onnx_parity.harness.results.content import hash_declaration, room_folder

#: A declaration of more lines is cut.
_MOST_LINES = 60


def declared_source(record: Record, places: Sequence[Path] = ()) -> str:
    """The statement that declares the record's case; empty if the file has none of its content, or changed since.

    The file is one of this project's own, or is in one of the `places`: a run that comes from elsewhere may name any.
    """
    if not record.source:
        return ""
    for file in _files(record.file, places):
        try:
            spans = _statements(file)
            is_as_it_ran = hash_declaration(file, record.name) == record.source
        except (OSError, SyntaxError, ValueError):
            continue  # It was edited since the run.
        span = next((span for span in spans if span[0] <= record.line <= span[1]), None)
        if is_as_it_ran and span is not None:
            lines = _lines(file)[span[0] - 1 : span[1]]
            return "\n".join([*lines[:_MOST_LINES], *(["…"] if len(lines) > _MOST_LINES else [])])
    return ""


def _files(name: str, places: Sequence[Path]) -> Iterator[Path]:
    room, _, rest = name.partition("/")
    if room in ("op_cases", "model_zoo") and _is_in(room_folder(room) / rest, [room_folder(room)]):
        yield room_folder(room) / rest
    if _is_in(Path(name), places):
        yield Path(name)


def _is_in(file: Path, places: Sequence[Path]) -> bool:
    try:
        return any(file.resolve().is_relative_to(place.resolve()) for place in places) and file.is_file()
    except (OSError, ValueError):  # A name that no file can have.
        return False


@cache
def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


@cache
def _statements(file: Path) -> list[tuple[int, int]]:
    """The first and the last line of every statement at the top level of a file."""
    return [(node.lineno, node.end_lineno or node.lineno) for node in ast.parse("\n".join(_lines(file))).body]
