"""Runs of `pytest` and `parity` in forked copies of this process, which has already imported what they need.

Interpreters of their own would take seconds each to import torch, and hundreds are needed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from onnx_parity.harness.cli import app
from tests.forked_pytest import exit_with, fail, fork_pytest_of_parity, pytest_here
from tests.harness.faults import CELLS, LEAN

__all__ = ["Forked", "forked_parity", "forked_pytest", "in_parts"]

#: Where a command prints, in its folder.
_OUTPUT = "output.txt"
_WRONG = "wrong.json"
_CLONE = str(Path(__file__).parents[2])
#: How many parts of the attacks are made at once.
_PARTS = 2


def in_parts(place: Path, repeats: int, attack: Callable[[Path, range], Iterable[str]]) -> tuple[str, ...]:
    """What went wrong in so many attacks. Copies of this process make them, each a part, in a folder of its own.

    `attack` is called with the folder and the numbers of its attacks.
    """
    parts: list[tuple[int, Path]] = []
    for number in range(min(_PARTS, repeats)):
        folder = place / f"part{number}"
        folder.mkdir()
        child = os.fork()
        if child == 0:
            try:
                wrong = list(attack(folder, range(number, repeats, _PARTS)))
                (folder / _WRONG).write_bytes(msgspec.json.encode(wrong))
                os._exit(0)
            finally:
                fail()
        parts.append((child, folder))
    for child, folder in parts:
        _, status = os.waitpid(child, 0)
        if status:
            raise RuntimeError(f"the attacks in {folder.name} ended with {os.waitstatus_to_exitcode(status)}")
    return tuple(
        words for _, folder in parts for words in msgspec.json.decode((folder / _WRONG).read_bytes(), type=list[str])
    )


class Forked:
    """A command that runs in a copy of this process. It has the methods of `subprocess.Popen` that are used here."""

    def __init__(self, root: Path, main: Callable[[], object]) -> None:
        self.root = root
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        try:
            os.chdir(root)
            sys.path.insert(0, str(root))
            os.environ["PYTHONPATH"] = os.pathsep.join([_CLONE, str(root)])
            output = os.open(_OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            for stream in (1, 2):
                os.dup2(output, stream)
            exit_with(main)
        finally:
            fail()

    def poll(self) -> int | None:
        return self.returncode if self.returncode is not None else self._waited(os.WNOHANG)

    def wait(self) -> int:
        code = self.returncode if self.returncode is not None else self._waited(0)
        assert code is not None
        return code

    def _waited(self, options: int) -> int | None:
        pid, status = os.waitpid(self.pid, options)
        if pid:
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def output(self) -> str:
        return (self.root / _OUTPUT).read_text(encoding="utf-8", errors="replace")


def forked_pytest(root: Path, *options: str, workers: int = 0) -> Forked:
    """`pytest` on the cells of a project."""
    words = [*LEAN, *CELLS, "-n", str(workers), "-q", *options, "faulty_cases"]
    return Forked(root, lambda: pytest_here(words))


def forked_parity(root: Path, *arguments: str) -> Forked:
    """`parity ...` in a project. The pytest that it starts is a copy of it, and the leader of another process group."""

    def main() -> object:
        fork_pytest_of_parity()
        return app(arguments)

    return Forked(root, main)
