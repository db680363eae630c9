"""Runs that are killed and resumed, and runs in shards: together they equal one run."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from onnx_parity.harness.record import Record, Stage, Status
from onnx_parity.harness.store import create_run, read_end, read_info, read_records
from tests.forked import Ended
from tests.harness.faults import LEAN, WAITING, make_project, run_project, start_project
from tests.harness.running.test_isolation import assert_gone, wait_for_the_waiting

_CELLS = ("--devices", "cpu", "--opsets", "9,18", "faulty_cases")


def records_of(run: Path) -> dict[str, Record]:
    return {record.cell: record for record in read_records(run)}


def pytest_run(root: Path, *options: str) -> Ended:
    return run_project(root, "pytest", *LEAN, "-n", "0", *options)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A project whose run was killed in the middle of a cell, which does not wait any more."""
    make_project(tmp_path, (("wait", Stage.LOAD),))
    with start_project(tmp_path, "pytest", *LEAN, "-n", "0", "--seed", "3", *_CELLS) as process:
        pids = wait_for_the_waiting(tmp_path)
        process.kill()
    for pid in pids:
        assert_gone(pid)
    (tmp_path / WAITING).unlink()
    (tmp_path / "conftest.py").unlink()
    return tmp_path


def test_a_run_that_was_killed_goes_on(killed: Path) -> None:
    run = killed / "runs" / "last"
    before = records_of(run)
    assert len(before) == 4
    assert read_end(run) is None
    resumed = run_project(killed, "parity", "run", "--resume", "runs/last", "-n", "0", "--no-report")
    assert resumed.code == pytest.ExitCode.OK, resumed.text
    after = records_of(run)
    assert len(after) == 4 + 4 + 2
    assert {record.status for record in after.values()} == {Status.PASSED}
    # What was there is there as it was, and was not run again.
    assert {cell: after[cell] for cell in before} == before
    assert read_info(run).seed == 3
    end = read_end(run)
    assert end is not None
    assert end.whole
    assert len(list((killed / "runs").iterdir())) == 2


@pytest.mark.slow
def test_a_run_goes_on_in_the_folder_where_it_is_now(killed: Path) -> None:
    moved = (killed / "runs" / "last").resolve().rename(killed / "runs" / "kept")
    resumed = run_project(killed, "parity", "run", "--resume", "runs/kept", "-n", "0", "--no-report")
    assert resumed.code == pytest.ExitCode.OK, resumed.text
    assert len(records_of(moved)) == 4 + 4 + 2
    assert sorted(path.name for path in (killed / "runs").iterdir()) == ["kept", "last"]


@pytest.mark.parametrize(
    ("workers", "number"), [("0", signal.SIGTERM), pytest.param("1", signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_stopped_run_prints_how_to_resume(tmp_path: Path, workers: str, number: signal.Signals) -> None:
    make_project(tmp_path, (("wait", Stage.LOAD),))
    with start_project(tmp_path, "parity", "run", *LEAN, "-n", workers, *_CELLS) as process:
        pids = wait_for_the_waiting(tmp_path)
        process.send_signal(number)
        ended = process.wait(120)
    for pid in pids:
        assert_gone(pid)
    run = (tmp_path / "runs" / "last").resolve()
    assert ended.code == 2, ended.text
    assert f"To run the missing cells: parity run --resume {run}\n" in ended.text
    assert f"report: {run}/report/index.html\n" in ended.text
    assert "Traceback" not in ended.text
    end = read_end(run)
    assert end is not None
    assert not end.whole


@pytest.mark.slow
def test_a_run_of_another_environment_is_not_gone_on_with(killed: Path) -> None:
    info = read_info(killed / "runs" / "last")
    create_run(killed / "runs", replace(info, id="of-another-one", packages={**info.packages, "onnx": "1.0.0"}))
    resumed = pytest_run(killed, "--resume", "runs/last", *_CELLS)
    assert resumed.code == pytest.ExitCode.USAGE_ERROR
    assert (
        "runs/last cannot be resumed, because the installed packages have changed: "
        "it was started with onnx 1.0.0 (here " in resumed.text
    )
    assert "Install those versions, or start a new run." in resumed.text


def test_shards_together_are_the_whole_run(tmp_path: Path) -> None:
    make_project(tmp_path, ())
    cases = [f'case{number} = op(F.elu, floats(2, {number + 1}), dynamic={{"x": {{0: "b"}}}})' for number in range(6)]
    declarations = tmp_path / "faulty_cases" / "some.py"
    declarations.write_text(declarations.read_text() + "\n".join(cases) + "\n")
    (tmp_path / "conftest.py").unlink()
    held = []
    for number in (1, 2):
        shard = pytest_run(tmp_path, "--shard", f"{number}/2", "-k", "not case5", *_CELLS)
        assert shard.code == pytest.ExitCode.OK, shard.text
        held.append(set(records_of(tmp_path / "runs" / "last")))
        assert read_info(tmp_path / "runs" / "last").shard == f"{number}/2"
    assert not held[0] & held[1]
    assert all(held)
    assert len(held[0] | held[1]) == 5 * 4 + 2
    assert not any("case5" in cell for cell in held[0] | held[1])
