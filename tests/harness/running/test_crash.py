"""The record of the cell in which a worker was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from msgspec.structs import replace

from onnx_parity.harness.case import floats, op
from onnx_parity.harness.judging.outcome import blank_record
from onnx_parity.harness.pytest_plugin.hooks import Progress
from onnx_parity.harness.pytest_plugin.matrix import Matrix
from onnx_parity.harness.pytest_plugin.worker_crash import record_crash
from onnx_parity.harness.record import Record, Stage, Status
from onnx_parity.harness.running.run_log import RunLog
from onnx_parity.harness.store import read_records
from tests.harness.fakes import cell
from tests.records import INFO, RECORD

_ENDED = replace(RECORD, cell="ended", nodeid="cases.py::ended")
_BEGUN = replace(RECORD, cell="begun", nodeid="cases.py::begun", status=Status.CRASHED)


def crash_in(nodeid: str, root: Path) -> Record | None:
    """What is said of a crash in the cell, where the worker gw0 has ended one cell and begun the next."""
    worker = RunLog(root, lambda: INFO, "gw0")
    worker.finish(_ENDED)
    worker.begin(_BEGUN)
    worker.in_flight.enter(Stage.LOAD)
    worker.close()
    report = pytest.TestReport(nodeid, ("cases.py", None, ""), {}, "failed", None, "call")
    report.node = SimpleNamespace(gateway=SimpleNamespace(id="gw0"))  # type: ignore[attr-defined]
    matrix = SimpleNamespace(folder=root / INFO.id, log=RunLog(root, lambda: INFO, "main"))
    return record_crash(nodeid, report, cast("Matrix", matrix))


def test_a_cell_that_no_stage_has_ended_has_crashed() -> None:
    assert blank_record(cell(op(torch.relu, floats(2))), "cases.py", "", worker="gw0").status is Status.CRASHED


def test_the_cell_in_flight_has_crashed(tmp_path: Path) -> None:
    record = crash_in(_BEGUN.nodeid, tmp_path)
    assert record is not None
    assert (record.status, record.stage, record.reason) == (
        Status.CRASHED, Stage.LOAD, "worker gw0 died in stage load",
    )  # fmt: skip
    assert record in list(read_records(tmp_path / INFO.id))


def test_a_cell_that_had_ended_stays_what_it_was(tmp_path: Path) -> None:
    assert crash_in(_ENDED.nodeid, tmp_path) == _ENDED
    assert [each.cell for each in read_records(tmp_path / INFO.id)] == ["ended"]


def test_a_test_that_is_no_cell_has_no_record(tmp_path: Path) -> None:
    assert crash_in("test_it.py::test", tmp_path) is None


def test_a_run_without_cells_has_no_record(tmp_path: Path) -> None:
    report = pytest.TestReport("test_it.py::test", ("test_it.py", None, ""), {}, "failed", None, "call")
    report.node = SimpleNamespace(gateway=SimpleNamespace(id="gw0"))  # type: ignore[attr-defined]
    matrix = SimpleNamespace(folder=tmp_path / INFO.id)
    assert record_crash("test_it.py::test", report, cast("Matrix", matrix)) is None


_HANGS = """
import threading

def test_one():
    assert True

def test_hangs():
    threading.Event().wait()

def test_two():
    assert True
"""


@pytest.mark.slow
def test_a_test_that_hangs_ends_and_the_others_run(tmp_path: Path) -> None:
    """As this project's own tests are run, which end a process that hangs."""
    (tmp_path / "test_it.py").write_text(_HANGS)
    (tmp_path / "conftest.py").write_text(
        "import tests.conftest\nfrom tests.conftest import pytest_runtest_protocol\n\ntests.conftest.HANGS_AFTER = 3\n"
    )
    run = [sys.executable, "-m", "pytest", "-q", "-n", "1", "test_it.py"]
    path = {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        run, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300, env=os.environ | path
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "1 failed, 2 passed" in done.stdout
    assert "crashed while running 'test_it.py::test_hangs'" in done.stdout
    assert "in test_hangs" in done.stderr


def test_a_cell_that_was_lost_before_it_began_leaves_the_run_unfinished(tmp_path: Path) -> None:
    ends: list[str] = []
    folder = RunLog(tmp_path, lambda: INFO, "gw0")
    folder.finish(_ENDED)
    folder.close()
    lost = "cells were lost with a worker that died"
    for nodeid, why in ((_ENDED.nodeid, ""), ("cases.py::never_begun", lost)):
        matrix = SimpleNamespace(
            folder=tmp_path / INFO.id, begun=True, strict_unsupported=False, end=lambda why, _: ends.append(why)
        )
        progress = Progress(cast("Matrix", matrix), shows_pace=False)
        report = pytest.TestReport(nodeid, ("cases.py", None, ""), {}, "failed", None, "call")
        report.node = SimpleNamespace(gateway=SimpleNamespace(id="gw0"))  # type: ignore[attr-defined]
        progress.pytest_handlecrashitem(nodeid, report)
        session = SimpleNamespace(config=SimpleNamespace(), shouldstop=False, shouldfail=False)
        progress.pytest_sessionfinish(cast("pytest.Session", session), pytest.ExitCode.TESTS_FAILED)
        assert ends.pop() == why
