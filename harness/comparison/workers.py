"""Worker processes as their owner sees them: tasks in, outcomes out, whatever becomes of the process."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import IO, Self

import msgspec

from onnx_parity.harness.comparison.outcome import Outcome, Task, Verdict

WORKER = "onnx_parity.harness.comparison.worker"

#: Seconds that a worker has for its imports, torch's test code among them, on a busy machine.
START_SECONDS = 180.0


class WorkerStartError(Exception):
    """A worker that did not come up: there is nothing to compare."""


class _GoneError(Exception):
    """The worker died or was killed; the message says how."""


class Worker:
    """One exporter in a process of its own, started with the first task and again after a crash."""

    def __init__(self, exporter: str, stderr: IO[bytes], *, seed: int, timeout: float, module: str = WORKER) -> None:
        self._exporter = exporter
        self._stderr = stderr
        self._seed = seed
        self._timeout = timeout
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self._pending = b""

    @classmethod
    @contextmanager
    def started_when_needed(cls, exporter: str, *, seed: int, timeout: float, module: str = WORKER) -> Iterator[Self]:
        """A worker that is gone afterwards."""
        with tempfile.TemporaryFile() as stderr:
            worker = cls(exporter, stderr, seed=seed, timeout=timeout, module=module)
            try:
                yield worker
            finally:
                worker.end()

    def outcomes(self, task: Task) -> Iterator[Outcome]:
        """One outcome an opset, in order; where the process dies, that opset's is `crashed` and the next goes on."""
        left = list(task.opsets)
        while left:
            try:
                self._send(msgspec.structs.replace(task, opsets=tuple(left)))
                while left:
                    outcome = msgspec.json.decode(self._line(self._timeout), type=Outcome)
                    left.pop(0)
                    yield outcome
            except _GoneError as error:
                yield Outcome(task.point, self._exporter, left.pop(0), Verdict.CRASHED, str(error))

    def end(self) -> None:
        if self._process is not None:
            self._kill()

    def _send(self, task: Task) -> None:
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(msgspec.json.encode(task) + b"\n")
            process.stdin.flush()
        except BrokenPipeError as error:
            raise _GoneError(self._how_it_ended()) from error

    def _start(self) -> subprocess.Popen[bytes]:
        self._answers, theirs = os.pipe()
        self._pending = b""
        self._stderr.truncate(0)
        self._stderr.seek(0)
        command = [sys.executable, "-m", self._module, self._exporter, str(self._seed), str(theirs)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._stderr, pass_fds=(theirs,)
        )
        os.close(theirs)
        try:
            self._line(START_SECONDS)
        except _GoneError as error:
            raise WorkerStartError(
                f"the worker of {self._exporter} did not start: it {error}\n{self._last_words()}"
            ) from error
        return self._process

    def _line(self, seconds: float) -> bytes:
        """The next line that the worker writes within so many seconds."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self._kill()
                raise _GoneError(f"gave no answer for {seconds:g} s")
            read = os.read(self._answers, 1 << 16)
            if not read:
                raise _GoneError(self._how_it_ended())
            self._pending += read
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _how_it_ended(self) -> str:
        assert self._process is not None
        code = self._process.wait()
        self._close()
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with {code}: {self._last_words()}"

    def _last_words(self) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        # What it left unread does not matter any more.
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        os.close(self._answers)
        self._process = None


def run_tasks(
    exporter: str,
    tasks: Sequence[Task],
    *,
    seed: int,
    processes: int,
    timeout: float,
    done: Callable[[], None],
) -> list[Outcome]:
    """Put an exporter to every task; `done` is called with each outcome, in whichever thread it comes."""
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
