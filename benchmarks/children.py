"""Runs a job in a process of its own; a child that fails, dies or hangs is an outcome too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.jobs import Failure, Job, Outcome

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_SECONDS = 900.0


def run(job: Job, folder: Path, timeout: float = TIMEOUT_SECONDS) -> Outcome:
    """Run `job` in a fresh Python, with `folder` for its outcome."""
    file = folder / "outcome.json"
    file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.child", msgspec.json.encode(job).decode(), str(file)]
    try:
        child = subprocess.run(
            command,
            cwd=ROOT,
            # An installed package comes compiled, as torch's is; so should this one be after its first import.
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Failure(f"no outcome after {timeout:g} s")
    if file.exists():
        outcome: Outcome = msgspec.json.decode(file.read_bytes(), type=Outcome)
        return outcome
    return Failure(error_in(child.stderr) or f"ended with status {child.returncode} and no word")


def error_in(stderr: str) -> str:
    """The first line of the error that a traceback ends with; without a traceback, the last line."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    frames = [number for number, line in enumerate(lines) if line.startswith("  File ")]
    after_traceback = (line for line in lines[frames[-1] :] if not line.startswith(" ")) if frames else iter(lines[-1:])
    return next(after_traceback, "")
