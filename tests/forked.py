"""Runs `pytest ...`, `parity ...` and `python -c ...` in processes of their own that need not import torch again.

Importing torch, onnx, onnxruntime and the exporter takes over three seconds of processor time. The processes of
this module are forked from one that has imported them. Otherwise they are like those of a shell: with their own
working directory, arguments, environment, output and exit code.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from types import ModuleType
from typing import Self

__all__ = ["Ended", "Started", "run", "start"]

_IMPORTED = [
    "onnxruntime",
    "pytest",
    "torch.export._trace",
    "onnx_parity.exporter",
    "onnx_parity.harness.running.stages",
]


@dataclass(frozen=True)
class Ended:
    """The exit code of a process, negative if a signal ended it, what it printed, errors included, and its number."""

    code: int
    text: str
    process: int


def run(root: Path, *arguments: str, timeout: float = 180, **variables: str) -> Ended:
    """Run `pytest ...`, `parity ...` or `python -c ...` in a folder to its end, with these variables besides those of
    this process.
    """
    with start(root, *arguments, **variables) as started:
        return started.wait(timeout)


def start(root: Path, *arguments: str, **variables: str) -> Started:
    """The same, without waiting for its end."""
    return Started(arguments, root, {**os.environ, **variables})


class Started:
    """A process that has been started. A `with` statement ends when it has ended."""

    def __init__(self, arguments: Sequence[str], root: Path, environment: Mapping[str, str]) -> None:
        self._printed = tempfile.NamedTemporaryFile()  # noqa: SIM115  It is closed with the process.
        asked = (arguments, str(root), environment, self._printed.name)
        self._process = _context().Process(target=_run, args=asked)
        self._process.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.join()
        self._printed.close()

    def send_signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float) -> Ended:
        """Wait until it has ended. If that takes longer, it is killed."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            self.kill()
            self._process.join()
        self._printed.seek(0)
        text = self._printed.read().decode(errors="replace")
        code, number = self._process.exitcode, self._process.pid
        assert code is not None and number is not None, "a process that was joined has ended"
        return Ended(code, text, number)


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    return context


def _run(arguments: Sequence[str], root: str, environment: Mapping[str, str], output: str) -> None:
    for descriptor, file, flags in ((0, os.devnull, os.O_RDONLY), (1, output, os.O_WRONLY | os.O_APPEND)):
        opened = os.open(file, flags)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.dup2(1, 2)
    os.chdir(root)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, root)
    sys.argv = list(arguments)
    try:
        _MAIN[arguments[0]]()
    finally:
        # A forked process ends without them.
        atexit._run_exitfuncs()


def _pytest() -> None:
    from tests.forked_pytest import pytest_here

    sys.exit(pytest_here(sys.argv[1:]))


def _parity() -> None:
    from onnx_parity.harness.cli import app
    from tests.forked_pytest import fork_pytest_of_parity

    fork_pytest_of_parity()
    app()


def _python() -> None:
    option, program, *arguments = sys.argv[1:]
    assert option == "-c"
    sys.argv = [option, *arguments]
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(program, "<string>", "exec"), vars(main))


_MAIN = {"pytest": _pytest, "parity": _parity, "python": _python}
