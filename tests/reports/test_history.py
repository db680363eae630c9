"""The history: the figures of the runs beside a run, of which reports were written, whatever lies between them."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from onnx_parity.harness.record import Stage, Status
from onnx_parity.reports.pieces import read_piece
from onnx_parity.reports.site import write_report
from tests.records import write_run
from tests.reports.synthetic_run import PASSING, info


def history_of(index: Path) -> object:
    return read_piece((index.parent / "data" / "history.js").read_text())


def test_each_report_shows_the_runs_before_it(tmp_path: Path) -> None:
    failed = replace(PASSING, cell="f", status=Status.FAILED, stage=Stage.COMPARE)
    timed = replace(PASSING, seconds={"export": 0.25})
    earlier = write_run(tmp_path, [timed, failed], replace(info("one"), started="2026-01-01T00:00:00Z"))
    later = write_run(tmp_path, [PASSING], replace(info("two"), started="2026-01-02T00:00:00Z"))
    write_report(earlier, earlier / "report")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "figures.json").write_text("{")
    runs = history_of(write_report(later, later / "report"))
    assert isinstance(runs, list)
    assert [(run["id"], run["counts"], run["export"], run["report"]) for run in runs] == [
        ("one", {"failed": 1, "passed": 1}, 125.0, "../../one/report/index.html"),
        ("two", {"passed": 1}, 0.0, ""),
    ]


def test_a_run_that_cannot_be_written_to_has_a_report(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs", [PASSING], info("one"))
    (run / "figures.json").mkdir()
    runs = history_of(write_report(run, tmp_path / "report"))
    assert isinstance(runs, list)
    assert [run["id"] for run in runs] == ["one"]
