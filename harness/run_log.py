"""One process's part in a run: where its records go, and what is left behind if it dies."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from harness.record import Record, RunInfo, Stage
from harness.store import InFlight, RecordWriter, create_run


class RunLog:
    """Writes records as cells end. The run's folder appears with the first cell, so that no run is empty."""

    def __init__(self, root: Path, describe: Callable[[], RunInfo], process: str) -> None:
        self._root = root
        self._describe = describe
        self._process = process
        self._writer: RecordWriter | None = None
        self._in_flight: InFlight | None = None

    def begin(self, record: Record) -> None:
        """A cell is about to run."""
        if self._in_flight is None:
            run = create_run(self._root, self._describe())
            self._in_flight = InFlight(run, self._process)
            # A crash's Python stack belongs beside the records, not among the dots of a terminal.
            self._stack = stack_path(run, self._process).open("w")
            faulthandler.enable(self._stack)
        self._in_flight.begin(record)

    def enter(self, stage: Stage) -> None:
        if self._in_flight is not None:
            self._in_flight.enter(stage)

    def finish(self, record: Record) -> None:
        """A cell has ended, here or in a process that did not live to say so."""
        if self._writer is None:
            self._writer = RecordWriter(create_run(self._root, self._describe()), self._process)
        self._writer.append(record)
        if self._in_flight is not None:
            self._in_flight.end()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._in_flight is not None:
            self._in_flight.close()
            faulthandler.disable()
            self._stack.close()
            if os.path.getsize(self._stack.name) == 0:
                with suppress(FileNotFoundError):
                    os.unlink(self._stack.name)


def stack_path(run: Path, process: str) -> Path:
    """Where faulthandler writes if the process crashes."""
    return run / f"stack-{process}.txt"
