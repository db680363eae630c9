"""Framed messages over pipes between a child process and its owner.

This module imports little, because benchmarks measure the imports of the child.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: The number of bytes before each message that give its length.
_HEADER = 8
_PR_SET_PDEATHSIG = 1


class Channel:
    """One side of a connection: messages are read from one descriptor and written to another."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing

    @property
    def reading(self) -> int:
        return self._reading

    @property
    def descriptors(self) -> frozenset[int]:
        return frozenset({self._reading, self._writing})

    def send(self, message: bytes) -> None:
        """Send a message. Raises BrokenPipeError if the other side has ended."""
        view = memoryview(len(message).to_bytes(_HEADER, "big") + message)
        while view:
            view = view[os.write(self._writing, view) :]

    def receive(self) -> bytes:
        """The next message. Raises EOFError if there is none and the other side has ended."""
        return self._exactly(int.from_bytes(self._exactly(_HEADER), "big"))

    def end_sending(self) -> None:
        """Tell the other side that there are no more messages."""
        # Closed only once, because the number may belong to another file afterwards.
        writing, self._writing = self._writing, -1
        if writing >= 0:
            os.close(writing)

    def close(self) -> None:
        self.end_sending()
        reading, self._reading = self._reading, -1
        if reading >= 0:
            os.close(reading)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            read = os.read(self._reading, size - len(data))
            if not read:
                raise EOFError
            data += read
        return data


def pipes() -> tuple[Channel, Channel]:
    """The two channels of a connection: the owner's and the child's."""
    (child_reads, owner_writes), (owner_reads, child_writes) = os.pipe(), os.pipe()
    return Channel(owner_reads, owner_writes), Channel(child_reads, child_writes)


@contextmanager
def to_owner(descriptor: int) -> Iterator[Channel]:
    """A context with the channel of a process that was started with a command, until its owner sends no more."""
    die_with(os.getppid())
    with suppress(EOFError):
        yield Channel(sys.stdin.fileno(), descriptor)


def die_with(owner: int, *, first: bool = True) -> None:
    """Called in a child: if the owner is killed, even with SIGKILL, so is this process. If memory runs out, the system
    kills this process first, unless `first` is false.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != owner:
            os._exit(1)
        # Some containers do not permit it, and it is only a hint.
        with suppress(OSError):
            if first:
                Path("/proc/self/oom_score_adj").write_text("1000")
