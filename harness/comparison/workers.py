"""Runs tasks in worker processes. A process that crashes or hangs is the outcome of its task."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Self

import msgspec

from onnx_parity.harness.comparison.outcome import Outcome, Task, Verdict
from onnx_parity.harness.running.child_process import ProcessEndedError
from onnx_parity.harness.running.worker_process import (
    LOST_FOR_GOOD,
    Answering,
    PlaceLostError,
    Start,
    start_here,
    start_ready,
)

WORKER = "onnx_parity.harness.comparison.worker"

#: Seconds that a worker may take for its imports, including torch's test code, on a busy machine.
START_SECONDS = 180.0


class WorkerStartError(Exception):
    """A worker that did not start, so that there is nothing to compare."""


class _EndsError(Exception):
    """The comparison ends: nobody waits for what a worker would answer."""


class Worker:
    """One exporter in its own process, which is started for the first task and again after a crash."""

    def __init__(self, exporter: str, *, seed: int, timeout: float, module: str, start: Start) -> None:
        self._exporter = exporter
        self._timeout = timeout
        self._module, self._arguments = module, (exporter, str(seed))
        self._start_process = start
        self._process: Answering | None = None
        #: Set from another thread when the comparison ends early.
        self.ends = threading.Event()

    @classmethod
    @contextmanager
    def started_when_needed(
        cls, exporter: str, *, seed: int, timeout: float, module: str = WORKER, start: Start = start_here
    ) -> Iterator[Self]:
        """A context with a worker, whose process is ended afterwards."""
        worker = cls(exporter, seed=seed, timeout=timeout, module=module, start=start)
        try:
            yield worker
        finally:
            worker.end()

    def outcomes(self, task: Task) -> Iterator[Outcome]:
        """One outcome for each opset, in order. If the process dies, the current opset's outcome is `crashed`. If its
        machine is lost, what is left is asked of a process on another one.
        """
        left = list(task.opsets)
        lost = 0
        while left:
            try:
                process = self._process = self._process or self._start()
                process.send(msgspec.json.encode(msgspec.structs.replace(task, opsets=tuple(left))))
                while left:
                    outcome = msgspec.json.decode(process.answer(self._timeout, self._look), type=Outcome)
                    left.pop(0)
                    yield outcome
            except ProcessEndedError as ending:
                self._process = None
                yield Outcome(task.point, self._exporter, left.pop(0), Verdict.CRASHED, str(ending))
            except PlaceLostError as ending:
                self._process = None
                lost += 1
                if lost == LOST_FOR_GOOD:
                    reason = f"{lost} machines were lost while they ran it; the last: {ending}"
                    yield Outcome(task.point, self._exporter, left.pop(0), Verdict.CRASHED, reason)
                    lost = 0

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _start(self) -> Answering:
        try:
            return start_ready(self._start_process, self._module, self._arguments, self._look, within=START_SECONDS)
        except ProcessEndedError as ending:
            raise WorkerStartError(f"the worker of {self._exporter} did not start: it {ending}") from ending

    def _look(self) -> None:
        if self.ends.is_set():
            raise _EndsError


def run_tasks(
    exporter: str,
    tasks: Sequence[Task],
    *,
    seed: int,
    processes: int,
    timeout: float,
    done: Callable[[], None],
    start: Start = start_here,
) -> list[Outcome]:
    """Run an exporter on every task. `done` is called with each outcome, in any thread."""
    queue = deque(tasks)
    found: list[Outcome] = []
    workers: list[Worker] = []

    def take() -> Task | None:
        with suppress(IndexError):
            return queue.popleft()
        return None

    def drive() -> None:
        with (
            suppress(_EndsError),
            Worker.started_when_needed(exporter, seed=seed, timeout=timeout, start=start) as worker,
        ):
            workers.append(worker)
            while (task := take()) is not None:
                for outcome in worker.outcomes(task):
                    found.append(outcome)
                    done()

    with ThreadPoolExecutor(processes) as pool:
        try:
            for future in [pool.submit(drive) for _ in range(min(processes, len(tasks)))]:
                future.result()
        except BaseException:
            queue.clear()
            for worker in workers:
                worker.ends.set()
            raise
    return found
