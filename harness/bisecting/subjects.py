"""What is run at each release: a script that shows a defect, or a cell that is exported and run again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from onnx_parity.harness.record import WRONG, Status

__all__ = ["Answer", "CellAgain", "Script", "Subject", "Verdict"]

#: Seconds that one run may take.
_SECONDS = 600.0
#: The name of the error with which a script ended.
_ERROR = re.compile(r"^([A-Za-z_][\w.]*): ", re.MULTILINE)


class Verdict(StrEnum):
    FAILS = "fails"
    PASSES = "passes"
    #: It ends in another way than it did: an older release may not know the opset of the model.
    OTHER = "cannot tell"


@dataclass(frozen=True, slots=True)
class Answer:
    verdict: Verdict
    #: What it printed last.
    line: str = ""


class Subject(Protocol):
    def run(self, python: str) -> Answer:
        """Run it by the Python of an environment."""


class Script:
    """A script that ends with 0 once the defect is gone, and otherwise as it ends now."""

    def __init__(self, path: Path, python: str = sys.executable) -> None:
        self._path = path.resolve()
        #: How it ends where it fails: its exit code and the class of an error. None until that is known.
        self._failure: tuple[int, str] | None = None
        code, error, _ = self._end(python)
        # Without the distribution here, the first release that ends with a wrong result tells how.
        if code and error != ModuleNotFoundError.__name__:
            self._failure = (code, error)

    def run(self, python: str) -> Answer:
        code, error, line = self._end(python)
        if code == 0:
            return Answer(Verdict.PASSES, line)
        if self._failure is None and not error:
            self._failure = (code, error)
        return Answer(Verdict.FAILS if (code, error) == self._failure else Verdict.OTHER, line)

    def _end(self, python: str) -> tuple[int, str, str]:
        done = _run([python, str(self._path)])
        found = _ERROR.findall(done.stderr) if "Traceback (most recent call last)" in done.stderr else []
        return done.returncode, found[-1] if found else "", _last_line(done.stdout, done.stderr, failed=bool(found))


@dataclass(frozen=True, slots=True)
class CellAgain:
    """A cell of this project, which is exported and run again, by `parity repro`."""

    cell: str
    seed: int

    def run(self, python: str) -> Answer:
        with tempfile.TemporaryDirectory(prefix="parity-") as aside:
            words = ["repro", self.cell, "--seed", str(self.seed), "--out", str(Path(aside) / "bundle"), "--json"]
            done = _run([python, "-m", "onnx_parity", *words], cwd=Path.cwd())
        if done.returncode < 0:
            return Answer(Verdict.FAILS, f"the process ended with {done.returncode}")
        try:
            record = json.loads(done.stdout.splitlines()[-1])["record"]
        except (IndexError, ValueError, KeyError):
            return Answer(Verdict.OTHER, _last_line(done.stdout, done.stderr, failed=True))
        status = Status(record["status"])
        verdict = Verdict.FAILS if status in WRONG else Verdict.PASSES if status is Status.PASSED else Verdict.OTHER
        return Answer(verdict, record.get("reason", ""))


def _run(words: list[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory(prefix="parity-") as aside:
        try:
            return subprocess.run(
                words,
                cwd=cwd or aside,
                env={**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(words, 124, "", f"did not end within {_SECONDS:g} s")


def _last_line(stdout: str, stderr: str, *, failed: bool) -> str:
    texts = (stderr, stdout) if failed else (stdout, stderr)
    lines = [line.strip() for text in texts for line in reversed(text.splitlines()) if line.strip()]
    return lines[0][:200] if lines else ""
