"""Limits how many processes use a device at a time, across all workers and runs.

A slot is a locked file. The system releases the lock of a process that dies, so the slot is free again.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

#: Seconds between two checks for a free slot.
_LOOK = 0.02


@dataclass(frozen=True, slots=True)
class Slots:
    """A number of slots, shared by all processes that use the same folder for their files."""

    folder: Path
    number: int

    @contextmanager
    def taken(self, waiting: Callable[[], None] = lambda: None) -> Iterator[int]:
        """Wait for a slot and hold it. `waiting` is called at every check: this time does not count for a cell."""
        self.folder.mkdir(parents=True, exist_ok=True)
        files = [
            os.open(self.folder / f"slot-{number}", os.O_RDWR | os.O_CREAT, 0o666) for number in range(self.number)
        ]
        try:
            yield self._wait(files, waiting)
        finally:
            for file in files:
                os.close(file)  # This also unlocks it.

    def _wait(self, files: list[int], waiting: Callable[[], None]) -> int:
        # Processes that start at the same time begin with different slots.
        order = [(os.getpid() + turn) % self.number for turn in range(self.number)]
        while True:
            for number in order:
                try:
                    fcntl.flock(files[number], fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                return number
            waiting()
            time.sleep(_LOOK)
