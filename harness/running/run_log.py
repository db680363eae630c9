"""One process's part in a run: where its records go, and what is left behind if it dies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from harness.record import Record, RunInfo
from harness.store import InFlight, RecordWriter, create_run, forget_end


class RunLog:
    """Writes records as cells end. The run's folder appears with the first cell, so that no run is empty."""

    def __init__(self, root: Path, describe: Callable[[], RunInfo], process: str) -> None:
        self._root = root
        self._describe = describe
        self._process = process
        self._writer: RecordWriter | None = None
        self._in_flight: InFlight | None = None

    def begin(self, record: Record) -> bytes:
        """A cell is about to run; return its record as JSON."""
        return self.in_flight.begin(record)

    @property
    def in_flight(self) -> InFlight:
        if self._in_flight is None:
            run = create_run(self._root, self._describe())
            forget_end(run)
            self._in_flight = InFlight(run, self._process)
        return self._in_flight

    def finish(self, record: Record) -> None:
        """A cell has ended, here or in a process that did not live to say so."""
        self._writer_of_run().append(record)
        self._end()

    def finish_encoded(self, record: bytes) -> None:
        """The same of a record that another process has written as JSON."""
        self._writer_of_run().append_encoded(record)
        self._end()

    def carry(self, records: Sequence[Record]) -> None:
        """Records of an earlier run that stand for cells of this one."""
        writer = RecordWriter(create_run(self._root, self._describe()), "carried")
        for record in records:
            writer.append(record)
        writer.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._in_flight is not None:
            self._in_flight.close()

    def _writer_of_run(self) -> RecordWriter:
        if self._writer is None:
            self._writer = RecordWriter(create_run(self._root, self._describe()), self._process)
        return self._writer

    def _end(self) -> None:
        if self._in_flight is not None:
            self._in_flight.end()


def stderr_path(run: Path, process: str) -> Path:
    """Where the cells of a process write their standard error, and faulthandler their stack."""
    return run / f"stderr-{process}.txt"
