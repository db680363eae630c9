"""Runs a job in a process of its own. If the child fails, dies or hangs, that is its outcome."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec

from benchmarks.jobs import Failure, Job, JobResult
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError
from onnx_parity.harness.running.last_words import error_in

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_SECONDS = 900.0


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
