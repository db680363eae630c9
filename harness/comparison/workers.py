"""Runs tasks in worker processes. A process that crashes or hangs is the outcome of its task."""

from __future__ import annotations

import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import IO, Self

import msgspec

from onnx_parity.harness.comparison.outcome import Outcome, Task, Verdict
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError
from onnx_parity.harness.running.last_words import error_in

WORKER = "onnx_parity.harness.comparison.worker"

#: Seconds that a worker may take for its imports, including torch's test code, on a busy machine.
START_SECONDS = 180.0


class WorkerStartError(Exception):
    """A worker that did not start, so that there is nothing to compare."""


class Worker:
    """One exporter in its own process, which is started for the first task and again after a crash."""

    def __init__(self, exporter: str, stderr: IO[bytes], *, seed: int, timeout: float, module: str = WORKER) -> None:
        self._exporter = exporter
        self._stderr = stderr
        self._timeout = timeout
        self._command = (sys.executable, "-m", module, exporter, str(seed))
        self._child: ChildProcess | None = None

    @classmethod
    @contextmanager
    def started_when_needed(cls, exporter: str, *, seed: int, timeout: float, module: str = WORKER) -> Iterator[Self]:
        """A context with a worker, whose process is ended afterwards."""
        with tempfile.TemporaryFile() as stderr:
            worker = cls(exporter, stderr, seed=seed, timeout=timeout, module=module)
            try:
                yield worker
            finally:
                worker.end()

    def outcomes(self, task: Task) -> Iterator[Outcome]:
        """One outcome for each opset, in order. If the process dies, the current opset's outcome is `crashed`."""
        left = list(task.opsets)
        while left:
            child = self._child = self._child or self._start()
            try:
                child.send(msgspec.json.encode(msgspec.structs.replace(task, opsets=tuple(left))))
                while left:
                    outcome = msgspec.json.decode(child.answer(self._timeout), type=Outcome)
                    left.pop(0)
                    yield outcome
            except ProcessEndedError as ending:
                self._child = None
                yield Outcome(task.point, self._exporter, left.pop(0), Verdict.CRASHED, self._told(ending))

    def end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _start(self) -> ChildProcess:
        self._stderr.truncate(0)
        self._stderr.seek(0)
        child = ChildProcess.spawned(self._command, self._stderr)
        try:
            child.answer(START_SECONDS)
        except ProcessEndedError as ending:
            raise WorkerStartError(f"the worker of {self._exporter} did not start: it {self._told(ending)}") from ending
        return child

    def _told(self, ending: ProcessEndedError) -> str:
        """How the process ended, with the last lines of its standard error if there are any."""
        self._stderr.seek(0)
        words = error_in(self._stderr.read().decode(errors="replace"))
        return f"{ending}: {words}" if words and str(ending).startswith("exited") else str(ending)


def run_tasks(
    exporter: str,
    tasks: Sequence[Task],
    *,
    seed: int,
    processes: int,
    timeout: float,
    done: Callable[[], None],
) -> list[Outcome]:
    """Run an exporter on every task. `done` is called with each outcome, in any thread."""
    queue = deque(tasks)
    found: list[Outcome] = []

    def take() -> Task | None:
        with suppress(IndexError):
            return queue.popleft()
        return None

    def drive() -> None:
        with Worker.started_when_needed(exporter, seed=seed, timeout=timeout) as worker:
            while (task := take()) is not None:
                for outcome in worker.outcomes(task):
                    found.append(outcome)
                    done()

    with ThreadPoolExecutor(processes) as pool:
        for future in [pool.submit(drive) for _ in range(processes)]:
            future.result()
    return found
