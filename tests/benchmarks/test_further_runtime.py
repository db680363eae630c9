"""What a further runtime costs and changes, from records that are made for the test."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from benchmarks.further_runtime import figures, main, told
from onnx_parity.harness.record import Record, Status
from onnx_parity.harness.store import read_records
from tests.records import RECORD, write_run

_SHARED = {"reference": 0.5, "export": 1.0, "check": 0.5}


def _cell(number: int, runtime: str, *, first: bool, **changes: object) -> Record:
    cell = f"elu[alpha={number}]-float32-opset9-cpu-trace-{runtime}"
    seconds = (_SHARED if first else {}) | {"load": 0.25, "run": 0.5, "compare": 0.25}
    return replace(RECORD, cell=cell, case=f"elu[alpha={number}]", runtime=runtime, seconds=seconds, **changes)


def _runs(root: Path, **changes: object) -> tuple[Path, Path]:
    """A run of two cases in onnxruntime, and one in tract too, the second of which may differ in onnxruntime."""
    ours = [_cell(number, "onnxruntime", first=True) for number in (1, 2)]
    theirs = [_cell(number, "tract", first=False) for number in (1, 2)]
    return write_run(root / "without", ours), write_run(root / "with", [ours[0], replace(ours[1], **changes), *theirs])


def test_it_costs_its_own_stages_and_changes_nothing(tmp_path: Path) -> None:
    without, with_it = _runs(tmp_path, worker="gw7", seconds=_SHARED)
    assert told(figures(read_records(without), read_records(with_it))) == [
        "tract: 2.0 s to load and run models, and to compare",
        "reference, export, check and transformations: 4.0 s without tract, 4.0 s with tract, "
        "0.0 s of them in its own cells",
        "2 cells are in both runs, 0 of which differ",
    ]


def test_work_that_is_done_again_is_told(tmp_path: Path) -> None:
    ours = [_cell(1, "onnxruntime", first=True)]
    without, again = write_run(tmp_path / "without", ours), [*ours, _cell(1, "tract", first=True)]
    assert figures(read_records(without), read_records(write_run(tmp_path / "with", again))).repeated_seconds == 2.0


def test_a_cell_that_changed_is_named(tmp_path: Path) -> None:
    without, with_it = _runs(tmp_path, status=Status.FAILED)
    assert told(figures(read_records(without), read_records(with_it)))[2:] == [
        "2 cells are in both runs, 1 of which differ",
        "  elu[alpha=2]-float32-opset9-cpu-trace-onnxruntime: status is failed, and was passed",
    ]


@pytest.mark.parametrize(("changed", "code"), [({}, 0), ({"nodes": 7}, 1)])
def test_the_exit_code_says_whether_a_cell_changed(tmp_path: Path, changed: dict[str, int], code: int) -> None:
    import typer

    application = typer.Typer()
    application.command()(main)
    without, with_it = map(str, _runs(tmp_path, **changed))
    assert CliRunner().invoke(application, [without, with_it]).exit_code == code
    same = CliRunner().invoke(application, [without, without])
    assert (same.exit_code, "has no runtime that" in same.stderr) == (2, True)
