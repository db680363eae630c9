"""Whether the exporter's unit tests notice a fault that no cell notices: one of a message, of a refusal, or of speed.

All tests are run once, while the statements of the exporter that each runs are noted. For a fault, only those are run
again that run its statement.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
import torch

from benchmarks.mutants.codes import Functions
from benchmarks.mutants.fate import SILENT
from benchmarks.mutants.sites import Mutant, plant
from benchmarks.mutants.watching import watch
from onnx_parity.harness.running.channel import Channel
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError

FOLDER = "tests/exporter"
#: Of the tests that run a fault's statement, so many are run.
MOST = 200
_OPTIONS = ("-q", "-p", "no:cacheprovider", "-n0", "--no-header")


class Tests(msgspec.Struct):
    """The tests that pass without a fault, each with the statements that it runs."""

    depends_on: str
    statements: list[str] = []
    ran: dict[str, tuple[int, ...]] = {}

    def reaching(self, statement: str) -> list[str]:
        """The tests that run a statement. Those that are named after its file come first, then those that run few."""
        if statement not in self.statements:
            return []
        wanted, name = self.statements.index(statement), Path(statement.rpartition(":")[0]).stem
        found = (test for test, ran in self.ran.items() if wanted in ran)
        return sorted(found, key=lambda test: (name not in test, len(self.ran[test])))


class _Notes:
    """A plug-in of pytest that notes what the tests run."""

    def __init__(self, noted: set[str]) -> None:
        self._noted = noted
        self._failed = False
        self.ran: dict[str, frozenset[str]] = {}

    def pytest_runtest_logstart(self) -> None:
        self._failed = False
        self._noted.clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or not report.passed

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if not self._failed:
            self.ran[nodeid] = frozenset(self._noted)


class _First:
    """A plug-in of pytest that notes the first test that fails."""

    def __init__(self) -> None:
        self.failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid


def tests(files: Mapping[str, Path], functions: Functions, depends_on: str, kept: Path, aside: Path) -> Tests:
    """The unit tests: as they were kept, or run now in a copy of this process."""
    if kept.exists():
        before = msgspec.msgpack.decode(kept.read_bytes(), type=Tests)
        if before.depends_on == depends_on:
            return before

    def serve(channel: Channel) -> None:
        _quietly()
        notes = _Notes(watch(files, functions))
        code = pytest.main([FOLDER, *_OPTIONS], plugins=[notes])
        assert code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), f"pytest ended with {code!r}"
        found, numbers = Tests(depends_on), dict[str, int]()
        for test, ran in notes.ran.items():
            found.ran[test] = tuple(sorted(numbers.setdefault(each, len(numbers)) for each in ran))
        found.statements = list(numbers)
        channel.send(msgspec.msgpack.encode(found))

    child = ChildProcess.forked(serve, aside)
    try:
        answer = child.answer(SILENT)
    finally:
        child.kill()
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(answer)
    return msgspec.msgpack.decode(answer, type=Tests)


def noticed_by(mutant: Mutant, path: Path, functions: Functions, reaching: Sequence[str], aside: Path) -> str:
    """The first of these tests that fails with a fault; empty if none does."""
    if not reaching:
        return ""

    def serve(channel: Channel) -> None:
        _quietly()
        plant(mutant, path, functions)
        first = _First()
        code = pytest.main(["-x", *_OPTIONS, *reaching[:MOST]], plugins=[first])
        assert code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), f"pytest ended with {code!r}"
        channel.send(msgspec.json.encode(first.failed))

    child = ChildProcess.forked(serve, aside)
    try:
        return msgspec.json.decode(child.answer(SILENT), type=str)
    except ProcessEndedError as ending:
        if "AssertionError: pytest ended with" in aside.read_text("utf-8", errors="replace"):
            raise
        return f"a test whose process {ending}"
    finally:
        child.kill()


def _quietly() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    # What pytest prints is not for the terminal.
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, 1)
