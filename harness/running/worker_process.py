"""A process that runs a module and answers messages, as `parity search` uses it.

It is a child of this process, or one on a node of a cluster (`harness/cluster/crew.py`): both are an `Answering`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError
from onnx_parity.harness.running.last_words import error_in


class PlaceLostError(Exception):
    """The machine on which a process ran is lost. Nothing in it is to blame, and its task may be given to another."""


class Answering(Protocol):
    """A process that answers messages until it ends. Then each method but `kill` raises `ProcessEndedError`, whose
    message describes its end, and `PlaceLostError` if its machine is lost.
    """

    def send(self, message: bytes) -> None: ...

    def answer(self, within: float, look: Callable[[], None] = ...) -> bytes:
        """The next answer. A process that gives none within so many seconds is ended. `look` is called again and again
        until then, and may raise an error.
        """

    def kill(self) -> None:
        """End the process at once, if it has not ended."""


#: Starts a process, from the name of its module and its arguments. Until there is a place for it, a function is called
#: again and again, which may raise an error.
Start = Callable[[str, tuple[str, ...], Callable[[], None]], Answering]
#: A task with which so many places were lost is to blame for that.
LOST_FOR_GOOD = 4


class WorkerProcess:
    """A child process of this one, and what it writes to its standard error."""

    def __init__(self, module: str, arguments: tuple[str, ...] = (), *, folder: Path | None = None) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  It is open as long as the process runs.
        self._child = ChildProcess.spawned((sys.executable, "-m", module, *arguments), self._stderr, folder=folder)

    def send(self, message: bytes) -> None:
        try:
            self._child.send(message)
        except ProcessEndedError as ending:
            raise self._describe_end(ending) from ending

    def answer(self, within: float, look: Callable[[], None] = lambda: None) -> bytes:
        try:
            return self._child.answer(within, look)
        except ProcessEndedError as ending:
            raise self._describe_end(ending) from ending

    def kill(self) -> None:
        self._child.kill()
        self._stderr.close()

    def _describe_end(self, ending: ProcessEndedError) -> ProcessEndedError:
        """How the process ended, with the error that it wrote if it ended by itself."""
        self._stderr.seek(0)
        words = error_in(self._stderr.read().decode(errors="replace"))
        self._stderr.close()
        return ProcessEndedError(f"{ending}: {words}" if words and str(ending).startswith("exited") else str(ending))


def start_here(module: str, arguments: tuple[str, ...], look: Callable[[], None]) -> Answering:
    """Start a process on this machine, where there is always a place."""
    return WorkerProcess(module, arguments)


def start_ready(
    start: Start,
    module: str,
    arguments: tuple[str, ...],
    look: Callable[[], None],
    *,
    within: float,
    order: bytes = b"",
) -> Answering:
    """Start a process, give it its order if there is one, and wait until it says that it is ready. If its machine is
    lost before that, no task is to blame, and another machine is taken.
    """
    while True:
        process = start(module, arguments, look)
        try:
            if order:
                process.send(order)
            process.answer(within, look)
        except PlaceLostError:
            continue
        except ProcessEndedError:
            raise
        except BaseException:
            process.kill()
            raise
        return process
