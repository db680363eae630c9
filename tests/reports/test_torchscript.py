"""The page of TorchScript's constructs: what it says of each, and that it has all that are declared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

import start
from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.record import Record, Stage, Status
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.reports.torchscript import constructs_page, write_constructs
from tests.records import RECORD, write_run
from tests.reports.synthetic_run import info

_ROOT = Path(start.__file__).parent


def _record(name: str, opset: int, status: Status, reason: str = "", family: str = "script_types") -> Record:
    return replace(
        RECORD, cell=f"{name}-float32-opset{opset}", case=name, name=name, family=family, opset=opset, status=status,
        stage=Stage.COMPARE, reason=reason,
    )  # fmt: skip


def _rows(run: Path) -> list[str]:
    return [line for line in constructs_page(run).splitlines() if line.startswith("| `")]


def test_a_row_has_the_script_and_the_trace_of_a_construct(tmp_path: Path) -> None:
    records = [
        _record("script_dict", 9, Status.UNSUPPORTED, "sequences from opset 11"),
        _record("script_dict", 11, Status.PASSED),
        _record("traced_dict", 9, Status.PASSED),
        _record("traced_dict", 11, Status.PASSED),
        _record("script_enum", 11, Status.UNSUPPORTED, "no enums"),
    ]
    assert _rows(write_run(tmp_path, records, info())) == [
        "| `dict` | 11 | 9 | 9: sequences from opset 11 |",
        "| `enum` | – |  | 11: no enums |",
    ]


def test_a_wrong_result_is_no_refusal_and_has_no_opset(tmp_path: Path) -> None:
    records = [_record("script_dict", 9, Status.PASSED), _record("script_dict", 10, Status.FAILED, "output 0 differs")]
    assert _rows(write_run(tmp_path, records, info())) == ["| `dict` | – |  | 10: **failed**: output 0 differs |"]


def test_other_families_are_not_on_the_page(tmp_path: Path) -> None:
    records = [_record("erf", 11, Status.PASSED, family="elementwise"), _record("script_dict", 11, Status.PASSED)]
    out = write_constructs(write_run(tmp_path, records, info()), tmp_path / "docs" / "page.md")
    assert out.read_text().count("| `") == 1


def test_a_run_without_constructs_replaces_no_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("as it was")
    with pytest.raises(RunStoreError, match="has no constructs of TorchScript"):
        write_constructs(write_run(tmp_path, [_record("erf", 11, Status.PASSED, family="elementwise")], info()), page)
    assert page.read_text() == "as it was"


def test_the_page_has_every_construct_that_is_declared() -> None:
    page = (_ROOT / "docs" / "torchscript.md").read_text()
    declared = {
        name.removeprefix("traced_").removeprefix("script_")
        for name, declaration in declared_under(_ROOT / "op_cases")
        if Path(declaration.place.partition(":")[0]).name.startswith("script")
    }
    assert len(declared) > 130
    assert {*re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)} == declared
