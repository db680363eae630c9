"""Comparisons and searches whose processes are on machines that are lost: the task is given to another machine."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from onnx_parity.harness.axes import Dtype
from onnx_parity.harness.comparison.outcome import Outcome, Point, Task, Verdict
from onnx_parity.harness.comparison.workers import Worker, run_tasks
from onnx_parity.harness.running.child_process import ProcessEndedError
from onnx_parity.harness.running.worker_process import LOST_FOR_GOOD, PlaceLostError
from onnx_parity.harness.search.messages import Crashed, Order, Report
from onnx_parity.harness.search.searching import DRAWING, _Worker

TANH = Point("tanh", Dtype.FLOAT32, 0)
READY = b"ready"


class Process:
    """A process on another machine, which says its lines and then comes to an end."""

    def __init__(self, said: list[bytes], end: Exception) -> None:
        self._said = [READY, *said]
        self._end = end

    def send(self, message: bytes) -> None:
        pass

    def answer(self, within: float, look: Callable[[], None] = lambda: None) -> bytes:
        if not self._said:
            raise self._end
        return self._said.pop(0)

    def kill(self) -> None:
        pass


class Machines:
    """Starts one process after the other."""

    def __init__(self, *processes: Process) -> None:
        self._processes = list(processes)

    def start(self, module: str, arguments: tuple[str, ...], look: Callable[[], None]) -> Process:
        return self._processes.pop(0)


def said(opset: int) -> bytes:
    return msgspec.json.encode(Outcome(TANH, "parity", opset, Verdict.RIGHT, "", 1.0))


LOST = PlaceLostError("node2 is lost")


def outcomes(*processes: Process) -> list[tuple[int, Verdict, str]]:
    with Worker.started_when_needed("parity", seed=0, timeout=1.0, start=Machines(*processes).start) as worker:
        return [(each.opset, each.verdict, each.reason) for each in worker.outcomes(Task(TANH, (9, 13, 18)))]


def test_what_is_left_of_a_sample_is_asked_of_another_machine() -> None:
    found = outcomes(Process([said(9)], LOST), Process([], LOST), Process([said(13), said(18)], LOST))
    assert found == [(opset, Verdict.RIGHT, "") for opset in (9, 13, 18)]


def test_a_sample_that_takes_every_machine_with_it_is_at_fault() -> None:
    lost = [Process([], LOST) for _ in range(LOST_FOR_GOOD)]
    found = outcomes(*lost, Process([said(13)], ProcessEndedError("was killed by SIGSEGV")))
    assert found == [
        (9, Verdict.CRASHED, "4 machines were lost while they ran it; the last: node2 is lost"),
        (13, Verdict.RIGHT, ""),
        (18, Verdict.CRASHED, "was killed by SIGSEGV"),
    ]


def test_every_task_ends_once_on_machines_that_are_lost() -> None:
    lock = threading.Lock()
    started = 0

    def start(module: str, arguments: tuple[str, ...], look: Callable[[], None]) -> Process:
        nonlocal started
        with lock:
            started += 1
            return Process([said(18)] if started % 2 else [], LOST)

    tasks = [Task(TANH, (18,)) for _ in range(20)]
    found = run_tasks("parity", tasks, seed=0, processes=3, timeout=1.0, done=lambda: None, start=start)
    assert [each.verdict for each in found] == [Verdict.RIGHT] * 20


def test_a_program_is_looked_at_on_another_machine() -> None:
    order = Order(0, (), (), (), (18,), {})
    report = msgspec.json.encode(Report(7, 3, "", True, True, {}, 0.1))
    machines = Machines(Process([], LOST), Process([report], LOST))
    assert _Worker(order, machines.start, threading.Event()).look_at(7).number == 7
    lost = Machines(*(Process([], LOST) for _ in range(LOST_FOR_GOOD)))
    assert _Worker(order, lost.start, threading.Event())._asked(7) == Crashed(
        7, DRAWING, "4 machines were lost while they ran it; the last: node2 is lost"
    )
