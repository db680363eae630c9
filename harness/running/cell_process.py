"""The process that runs cells, from the side of its owner, which passes it cells and receives their records.

No cell runs in pytest's process or in a worker of xdist. Each of these forks a process after collection and passes it
one cell after the other. The process writes a cell's record itself and begins the next cell, which it has been given by
then, while its owner reports to pytest. A segfault, `os._exit`, a stage that does not end or memory without bound is
the outcome of that cell, with the signal, the stage, the last lines of standard error, and the stack. The next cell
gets a new process within milliseconds. If the owner is killed, so is the process.

Libraries keep some data for nearly every new case (compiled functions, kernels for a shape), 200 MiB over the default
tier. A process that has grown by `GROWTH_MIB` is therefore replaced between two cases, so that a long run takes no more
memory than a short one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path

from onnx_parity.harness.running.channel import Channel
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError
from onnx_parity.harness.running.limits import Limits, own_private_mib
from onnx_parity.harness.store import InFlight

#: By how many MiB a process's own memory may grow. The default tier needs three or four processes.
GROWTH_MIB = 64
#: The number of bytes before an answer that give the process's own memory in MiB.
_HEADER = 8


class CellProcess:
    """The process for cells of one owner. It is started for the first cell, and again after its end."""

    def __init__(
        self,
        answer: Callable[[bytes], bytes],
        in_flight: InFlight,
        stderr: Path,
        limits: Limits,
        keeps: Collection[int] = (),
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        """`keeps` are files of the owner that stay open in the process, which calls `at_end` before it ends."""
        self._at_end = at_end
        self._answer = answer
        self._keeps = frozenset(keeps) | {in_flight.fileno()}
        self._in_flight = in_flight
        self._stderr = stderr
        self._limits = limits
        self._child: ChildProcess | None = None
        #: The question that the process has been given in advance, which is asked next.
        self._ahead: bytes | None = None
        self._asked = 0.0
        #: The process's own memory in MiB after its last cell, and the least after any of its cells.
        self._held: int | None = None
        self._held_at_least: int | None = None

    def ask(self, question: bytes, ahead: bytes | None = None, *, alike: bool = False) -> bytes:
        """Let the process answer the question with `answer`, and then begin with the question `ahead`.

        `alike` means that the next question shares work with this one, so that the process is not replaced before it.
        """
        self._asked = time.monotonic()
        if self._ahead not in (None, question):
            with suppress(ProcessEndedError):
                self._ask(None)
        known, self._ahead = self._ahead == question, None
        grown = not alike and self._has_grown
        answer = self._ask(None if known else question, None if grown else ahead)
        if grown:
            self._end()
        return answer

    def close(self) -> None:
        self._end()
        with suppress(FileNotFoundError):
            if self._stderr.stat().st_size == 0:
                self._stderr.unlink()

    @property
    def _has_grown(self) -> bool:
        if self._held is None or self._held_at_least is None:
            return False
        return self._held > self._held_at_least + GROWTH_MIB

    def _end(self) -> None:
        """End the process, between two cells."""
        if self._child is not None:
            self._child.end()
            self._forget()

    def _forget(self) -> None:
        self._child = self._ahead = self._held = self._held_at_least = None

    def _ask(self, question: bytes | None, ahead: bytes | None = None) -> bytes:
        try:
            if self._child is None:
                self._child = ChildProcess.forked(self._serve, self._stderr, self._keeps)
            if question is not None:
                self._child.send(question)
            if ahead is not None and self._child.offer(ahead):
                self._ahead = ahead
            answer = self._child.receive(partial(self._look, self._child))
        except ProcessEndedError:
            self._forget()
            raise
        self._held = int.from_bytes(answer[:_HEADER], "big")
        self._held_at_least = min(self._held_at_least or self._held, self._held)
        return answer[_HEADER:]

    def _look(self, child: ChildProcess) -> None:
        """End the process if it is over a limit."""
        if self._limits.memory_mib:
            child.limit_memory(self._limits.memory_mib)
        stage, entered = self._in_flight.stage()
        seconds = self._limits.seconds(stage)
        if seconds:
            # Between two cells the stage is still that of the previous cell.
            since = max(entered, self._asked)
            child.limit_time(seconds, since, f"did not end within {seconds:g} s and was killed", asks_for_stack=True)

    def _serve(self, channel: Channel) -> None:
        """In the process: answer questions until there are no more."""
        while True:
            try:
                question = channel.receive()
            except EOFError:
                self._at_end()
                raise
            if os.lseek(2, 0, os.SEEK_CUR):
                # The standard error of an earlier cell must not be reported for this one.
                os.ftruncate(2, 0)
                os.lseek(2, 0, os.SEEK_SET)
            answer = self._answer(question)
            channel.send(own_private_mib().to_bytes(_HEADER, "big") + answer)
