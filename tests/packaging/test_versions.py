"""docs/versions.md is written from runs, of which each is a row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace
from typer.testing import CliRunner

from documents.__main__ import app
from onnx_parity.harness.record import SCHEMA_VERSION, Blame, Record, RunEnd, Stage, Status
from tests.records import INFO, RECORD, write_run

_END = RunEnd("2026-01-31T10:16:00+00:00", whole=True)


def run(root: Path, torch: str, records: Sequence[Record], end: RunEnd | None = _END) -> Path:
    packages = {"python": "3.11.4", "torch": torch, "onnx": "1.23.2", "onnxruntime": "1.31.1"}
    info = replace(
        INFO,
        id=torch,
        packages=packages,
        tier="smoke",
        platform="Linux-6.1.0-13-x86_64-with-glibc2.36",
        schema_version=SCHEMA_VERSION,
    )
    return write_run(root, records, info, end)


def cells(*statuses: Status) -> list[Record]:
    return [replace(RECORD, cell=f"cell{number}", status=status) for number, status in enumerate(statuses)]


def test_each_run_is_a_row_and_what_is_wrong_is_named_by_cause(tmp_path: Path) -> None:
    failed = [
        replace(each, stage=Stage.LOAD, blame=Blame.RUNTIME, aten=("aten::elu",), reason="no kernel", opset=opset)
        for each, opset in zip(cells(Status.FAILED, Status.FAILED), (9, 18), strict=True)
    ]
    older = run(tmp_path, "2.9.1+cpu", [*failed])
    newer = run(tmp_path, "2.13.0", cells(Status.PASSED, Status.PASSED, Status.UNSUPPORTED, Status.ABSENT))
    page = tmp_path / "versions.md"
    missing = "python 3.13: there is no interpreter"
    done = CliRunner().invoke(app, ["versions", str(older), str(newer), "--not-run", missing, "--out", str(page)])
    assert (done.exit_code, done.output) == (0, f"versions: {page}\n")
    text = page.read_text()
    assert [line for line in text.splitlines() if line.startswith("| 3")] == [
        "| 3.11.4 | 2.13.0 | 1.23.2 | 1.31.1 | smoke | 9 | 3 | 2 | 1 | 0 | 0 | 2026-01-31 |",
        "| 3.11.4 | 2.9.1 | 1.23.2 | 1.31.1 | smoke | 9, 18 | 2 | 0 | 0 | 0 | 2 | 2026-01-31 |",
    ]
    told = "- python 3.11.4, torch 2.9.1, onnx 1.23.2, onnxruntime 1.31.1: `aten::elu` load (runtime), 2 cells"
    assert told in text.splitlines()
    assert f"Run on Linux, x86_64.\n\nNot run:\n\n- {missing}\n\nWhat is wrong:" in text


def test_a_run_that_lacks_cells_is_no_row(tmp_path: Path) -> None:
    killed = run(tmp_path, "2.13.0", cells(Status.PASSED), end=None)
    page = tmp_path / "versions.md"
    done = CliRunner().invoke(app, ["versions", str(killed), "--out", str(page)])
    assert (done.exit_code, page.exists()) == (2, False)
    assert f"{killed} has not all of its cells" in done.output
