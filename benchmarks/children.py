"""Runs jobs in processes of their own. If a child fails, dies or hangs, that is its outcome."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.jobs import Failure, Job, JobResult
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError
from onnx_parity.harness.running.last_words import error_in
from onnx_parity.harness.running.worker_process import WorkerProcess

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_SECONDS = 900.0
#: Within which a process lists what it can be asked for.
_START_SECONDS = 300.0


def run(job: Job, folder: Path, timeout: float = TIMEOUT_SECONDS) -> JobResult:
    """Run `job` in a new Python process. Its standard error is written to a file in `folder`."""
    path = folder / "stderr.txt"
    # Installed packages such as torch are compiled to bytecode, and so should this one be, by its first import.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    started = time.monotonic()
    with path.open("wb") as stderr:
        command = (sys.executable, "-m", "benchmarks.child")
        child = ChildProcess.spawned(command, stderr, folder=ROOT, environment=environment)
        try:
            child.send(msgspec.json.encode(job))
            answer = child.receive(lambda: child.limit_time(timeout, started, f"no outcome after {timeout:g} s"))
        except ProcessEndedError as ending:
            words = "" if str(ending).startswith("no outcome") else error_in(path.read_text(errors="replace"))
            return Failure(words or str(ending))
        child.end()
    outcome: JobResult = msgspec.json.decode(answer, type=JobResult)
    return outcome


class RestartedWorker:
    """A process that lists what it can be asked for, and answers until it is ended. A question that ends it, or takes
    more than so many seconds, raises `ProcessEndedError`, and the next one starts another process.
    """

    def __init__(self, module: str, timeout: float, arguments: Sequence[str] = ()) -> None:
        self._module, self._timeout, self._arguments = module, timeout, tuple(arguments)
        self._process: WorkerProcess | None = None

    def names(self) -> list[str]:
        """Start the process, and return what it can be asked for."""
        self._process = WorkerProcess(self._module, self._arguments, folder=ROOT)
        found: list[str] = msgspec.json.decode(self._process.answer(_START_SECONDS), type=list[str])
        return found

    def answer(self, asked: msgspec.Struct, kind: Any) -> Any:
        """The answer to a question, which is of this type."""
        if self._process is None:
            self.names()
        assert self._process is not None
        try:
            self._process.send(msgspec.json.encode(asked))
            return msgspec.json.decode(self._process.answer(self._timeout), type=kind)
        except ProcessEndedError:
            self._process = None
            raise

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
