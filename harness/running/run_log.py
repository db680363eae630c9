"""Writes the records of one process of a run, and the cell that it is running, so that nothing is lost if it dies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from onnx_parity.harness.record import Record, RunInfo
from onnx_parity.harness.store import InFlight, RecordWriter, create_run, forget_end


@dataclass(frozen=True, slots=True)
class _Files:
    records: RecordWriter
    in_flight: InFlight


class RunLog:
    """Writes records as cells end. The run's folder is created with the first cell, so that no run is empty.

    A process that is forked after the files have been opened writes to them too; each record is one `write`.
    """

    def __init__(self, root: Path, describe: Callable[[], RunInfo], process: str) -> None:
        self._root = root
        self._describe = describe
        self._process = process

    @cached_property
    def _files(self) -> _Files:
        run = create_run(self._root, self._describe())
        forget_end(run)
        return _Files(RecordWriter(run, self._process), InFlight(run, self._process))

    @property
    def in_flight(self) -> InFlight:
        return self._files.in_flight

    def filenos(self) -> frozenset[int]:
        return frozenset({self._files.records.fileno(), self._files.in_flight.fileno()})

    def begin(self, record: Record) -> None:
        """Note that a cell begins."""
        self.in_flight.begin(record)

    def finish(self, record: Record) -> bytes:
        """A cell has ended, here or in a process that died in it. Return its record as JSON."""
        line = self._files.records.append(record)
        self.in_flight.end()
        return line

    def bring(self, lines: bytes) -> None:
        """Write records that another machine has sent, as lines with their checksums."""
        self._files.records.append_lines(lines)

    def carry(self, records: Sequence[Record]) -> None:
        """Write records of an earlier run for cells that this run does not repeat."""
        writer = RecordWriter(create_run(self._root, self._describe()), "carried")
        for record in records:
            writer.append(record)
        writer.close()

    def close(self) -> None:
        if "_files" in vars(self):
            self._files.records.close()
            self._files.in_flight.close()


def stderr_path(run: Path, process: str) -> Path:
    """The file for the standard error of the cells of a process, and for the stack that faulthandler writes."""
    return run / f"stderr-{process}.txt"
