"""The source of a declaration, which a case's page shows."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from onnx_parity.harness.results.content import hash_declaration
from onnx_parity.reports.sources import declared_source
from tests.records import RECORD

_CASES = "from onnx_parity.harness.case import floats, op\n\nmine = op(\n    abs, floats(2, 3)\n)\nother = 1\n"


def test_the_source_of_a_declaration_of_ones_own_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "cases.py"
    file.write_text(_CASES)
    record = replace(RECORD, file=str(file), name="mine", line=4, source=hash_declaration(file, "mine"))
    assert declared_source(record, [tmp_path]) == "mine = op(\n    abs, floats(2, 3)\n)"
    assert declared_source(record, [file]) == declared_source(record, [tmp_path])
    assert declared_source(replace(record, source="that of another content"), [tmp_path]) == ""


def test_files_that_have_no_declarations_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    file = tmp_path / "cases.py"
    file.write_text(_CASES)
    record = replace(RECORD, file=str(file), name="mine", line=4, source=hash_declaration(file, "mine"))
    (tmp_path / "mine" / "link.py").symlink_to(file)
    (tmp_path / "mine" / "edited.py").write_text("mine = op(")
    for name in (
        file,
        tmp_path / "mine" / "link.py",
        tmp_path / "mine" / "edited.py",
        tmp_path / "mine",
        "\0",
        "x" * 5000,
    ):
        assert declared_source(replace(record, file=str(name)), [tmp_path / "mine"]) == ""
