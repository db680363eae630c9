"""Isolation: if a cell ends its process, that is the outcome of that cell and does not affect others."""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from onnx_parity.harness.record import Record, Stage, Status
from onnx_parity.harness.running.cell_process import CellProcess
from onnx_parity.harness.running.child_process import ProcessEndedError
from onnx_parity.harness.running.limits import Limits
from onnx_parity.harness.store import InFlight, read_end, read_records
from tests.harness.faults import (
    CELLS,
    FAULTS,
    LEAN,
    LIMITS,
    SOME,
    WAITING,
    make_project,
    names_of,
    run_project,
    start_project,
)

_PYTEST = ("pytest", *LEAN, *LIMITS, *CELLS)


def faults_recorded(root: Path, faults: tuple[tuple[str, Stage], ...]) -> list[Record]:
    """Check that every cell left its record, those beside the faults a pass; return those of the faults."""
    records = {record.name: record for record in read_records(root / "runs" / "last")}
    names = names_of(faults)
    assert set(records) == {*names, "after", *(f"before_{number}" for number in range(len(faults)))}
    assert {record.status for name, record in records.items() if name not in names} == {Status.PASSED}
    return [records[name] for name in names]


def assert_told_as_it_is(record: Record, fault: str, stage: Stage) -> None:
    assert record.status is Status.CRASHED
    assert record.stage is stage
    assert record.reason == f"{FAULTS[fault][1]} in stage {stage}"
    assert f"about to {fault}" in record.message
    assert record.nodeid in record.message


@pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.slow), "2"])
def test_every_fault_is_the_outcome_of_its_cell(tmp_path: Path, workers: str) -> None:
    make_project(tmp_path, SOME)
    run = run_project(tmp_path, *_PYTEST, "-n", workers, "faulty_cases")
    assert run.code == pytest.ExitCode.TESTS_FAILED, run.text
    records = faults_recorded(tmp_path, SOME)
    for record, (fault, stage) in zip(records, SOME, strict=True):
        assert_told_as_it_is(record, fault, stage)
        assert record.message in run.text
    by_fault = dict(zip((fault for fault, _ in SOME), records, strict=True))
    # Where the process was is known in Python even when it hung in native code or ran out of its stack.
    for fault, frame in [
        ("segfault", "in segfault"),
        ("overflow", "in overflow"),
        ("hang", "in hang_in_python"),
        ("native_hang", "in hang_in_native_code"),
    ]:
        assert frame in by_fault[fault].message
    assert f"{len(SOME)} crashed, {len(SOME) + 1} passed" in run.text


@pytest.mark.slow
def test_parity_run_survives_them_too(tmp_path: Path) -> None:
    some = tuple((fault, stage) for fault, stage in SOME if fault in ("segfault", "exit"))
    make_project(tmp_path, some)
    run = run_project(tmp_path, "parity", "run", *CELLS, *LIMITS, "-n", "0", *LEAN, "faulty_cases")
    assert run.code == pytest.ExitCode.TESTS_FAILED, run.text
    for record, (fault, stage) in zip(faults_recorded(tmp_path, some), some, strict=True):
        assert_told_as_it_is(record, fault, stage)
    assert (tmp_path / "runs" / "last" / "report" / "index.html").exists()


def wait_for_the_waiting(root: Path) -> tuple[int, int]:
    """The process that runs the cell which waits, and its owner."""
    deadline = time.monotonic() + 120
    while not (root / WAITING).exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    cell_process, owner = (root / WAITING).read_text().split()
    return int(cell_process), int(owner)


def assert_gone(pid: int) -> None:
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < deadline, f"{pid} lives on"
        time.sleep(0.02)


def test_a_worker_that_is_killed_costs_the_cell_that_it_ran(tmp_path: Path) -> None:
    waiting = (("wait", Stage.LOAD),)
    make_project(tmp_path, waiting)
    with start_project(tmp_path, "pytest", *LEAN, *CELLS, "-n", "1", "faulty_cases") as process:
        cell_process, worker = wait_for_the_waiting(tmp_path)
        os.kill(worker, signal.SIGKILL)
        text = process.wait(120).text
    (record,) = faults_recorded(tmp_path, waiting)
    assert re.fullmatch(r"worker gw\d was killed by SIGKILL in stage load", record.reason), text
    assert record.status is Status.CRASHED
    assert record.message in text
    assert_gone(cell_process)


@pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.slow), "1"])
def test_who_kills_the_run_kills_every_process_of_it(tmp_path: Path, workers: str) -> None:
    make_project(tmp_path, (("wait", Stage.LOAD),))
    with start_project(tmp_path, "pytest", *LEAN, *CELLS, "-n", workers, "faulty_cases") as process:
        pids = wait_for_the_waiting(tmp_path)
        process.kill()
    for pid in pids:
        assert_gone(pid)
    # What had ended is whole, and what had not is not there.
    names = {record.name for record in read_records(tmp_path / "runs" / "last")}
    assert names <= {"before_0", "after"}


@pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.slow), "1"])
def test_a_run_ends_with_the_command_that_started_it(tmp_path: Path, workers: str) -> None:
    make_project(tmp_path, (("wait", Stage.LOAD),))
    with start_project(tmp_path, "parity", "run", *LEAN, *CELLS, "-n", workers, "faulty_cases") as process:
        cell_process, owner = wait_for_the_waiting(tmp_path)
        group = os.getpgid(owner)
        process.kill()
    assert group != os.getpgid(0)
    for pid in (cell_process, owner, group):
        assert_gone(pid)
    run = tmp_path / "runs" / "last"
    end = read_end(run)
    # It ended in order, and can be resumed.
    assert end is not None and not end.whole
    assert {record.name for record in read_records(run)} <= {"before_0", "after"}


@pytest.fixture
def process(tmp_path: Path) -> Iterator[CellProcess]:
    """A process that dies of the question `die`, and says of every other when it was answered."""
    in_flight = InFlight(tmp_path, "main")

    def answer(question: bytes) -> bytes:
        if question == b"die":
            os._exit(7)
        (tmp_path / question.decode()).touch()
        return question + b", answered"

    process = CellProcess(answer, in_flight, tmp_path / "stderr", Limits())
    yield process
    process.close()
    in_flight.close()


def test_what_comes_next_is_begun_before_it_is_asked(process: CellProcess, tmp_path: Path) -> None:
    assert process.ask(b"first", b"second") == b"first, answered"
    deadline = time.monotonic() + 30
    while not (tmp_path / "second").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert process.ask(b"second") == b"second, answered"
    assert process.ask(b"third") == b"third, answered"


def test_a_death_ahead_is_that_of_the_question_that_it_came_from(process: CellProcess) -> None:
    assert process.ask(b"first", b"die") == b"first, answered"
    with pytest.raises(ProcessEndedError, match="exited with 7"):
        process.ask(b"die", b"second")
    assert process.ask(b"second", b"third") == b"second, answered"


def test_what_was_given_ahead_of_a_death_is_asked_again(process: CellProcess) -> None:
    with pytest.raises(ProcessEndedError, match="exited with 7"):
        process.ask(b"die", b"second")
    assert process.ask(b"second") == b"second, answered"


@pytest.mark.parametrize("ahead", [b"another", b"die"])
def test_what_was_given_ahead_and_is_not_asked_is_passed_over(process: CellProcess, ahead: bytes) -> None:
    assert process.ask(b"first", ahead) == b"first, answered"
    assert process.ask(b"second", b"third") == b"second, answered"
    assert process.ask(b"third") == b"third, answered"


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[CellProcess]:
    """A process that keeps 30 MiB of each question, and answers which process it is."""
    kept: list[bytes] = []
    in_flight = InFlight(tmp_path, "main")

    def answer(question: bytes) -> bytes:
        kept.append(os.urandom(30 << 20))
        return question + b" " + str(os.getpid()).encode()

    process = CellProcess(answer, in_flight, tmp_path / "stderr", Limits())
    yield process
    process.close()
    in_flight.close()


@pytest.mark.parametrize("ahead", [True, False])
def test_a_process_that_grows_is_replaced(growing: CellProcess, ahead: bool) -> None:
    questions = [str(number).encode() for number in range(9)]
    answers = [
        growing.ask(question, following if ahead else None)
        for question, following in zip(questions, [*questions[1:], None], strict=True)
    ]
    assert [answer.split()[0] for answer in answers] == questions
    pids = [int(answer.split()[1]) for answer in answers]
    assert 2 <= len(set(pids)) <= 4
    for pid in set(pids[:-1]) - {pids[-1]}:
        assert_gone(pid)


def test_a_process_is_kept_for_what_it_knows(growing: CellProcess) -> None:
    assert len({growing.ask(b"again", alike=True) for _ in range(6)}) == 1


def test_the_process_of_cells_keeps_nothing_of_its_owner_s_open(tmp_path: Path) -> None:
    """A browser that a test drives beside the cells ends when its pipe does, which every copy keeps open."""
    reader, writer = os.pipe()
    in_flight = InFlight(tmp_path, "main")
    process = CellProcess(lambda question: question + b", answered", in_flight, tmp_path / "stderr", Limits())
    try:
        assert process.ask(b"asked") == b"asked, answered"
        os.close(writer)
        assert select.select([reader], [], [], 5.0)[0] == [reader]
        assert os.read(reader, 1) == b""
        assert process.ask(b"again") == b"again, answered"
    finally:
        process.close()
        in_flight.close()
        os.close(reader)


@pytest.mark.parametrize("workers", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_a_disk_that_fills_ends_the_run_in_words(tmp_path: Path, workers: str) -> None:
    make_project(tmp_path, (("fill_disk", Stage.LOAD),))
    run = run_project(tmp_path, "parity", "run", *LEAN, *CELLS, "-n", workers, "faulty_cases")
    folder = (tmp_path / "runs" / "last").resolve()
    assert run.code == 3, run.text
    assert f"a record cannot be written to {folder}: [Errno 28] No space left on device. Free space there" in run.text
    assert f", then: parity run --resume {folder}" in run.text and "Traceback" not in run.text
    assert {record.name for record in read_records(folder)} <= {"before_0", "after"}
    assert not read_records(folder).damage
