"""The source of a declaration, if its file is here and it still is what ran."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from onnx_parity.harness.record import Record
from onnx_parity.harness.results.content import declared_as, room_folder

#: A declaration of more lines is cut.
_MOST_LINES = 60


def declared_source(record: Record) -> str:
    """The statement that declares the record's case; empty if the file has none of its content, or changed since."""
    file = _file(record.file)
    if file is None or not record.source:
        return ""
    begin, end = next((span for span in _statements(file) if span[0] <= record.line <= span[1]), (0, 0))
    if not begin or declared_as(file, record.name) != record.source:
        return ""
    lines = _lines(file)[begin - 1 : end]
    return "\n".join([*lines[:_MOST_LINES], *(["…"] if len(lines) > _MOST_LINES else [])])


@cache
def _file(name: str) -> Path | None:
    room, _, rest = name.partition("/")
    if room not in ("op_cases", "model_zoo"):
        return None
    file = room_folder(room) / rest
    return file if file.resolve().is_relative_to(room_folder(room).resolve()) and file.is_file() else None


@cache
def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


@cache
def _statements(file: Path) -> list[tuple[int, int]]:
    """The first and the last line of every statement at the top level of a file."""
    return [(node.lineno, node.end_lineno or node.lineno) for node in ast.parse("\n".join(_lines(file))).body]
