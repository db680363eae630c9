"""The run store: a folder per run, appended to as outcomes come, readable at any moment.

    runs/20260131-101500/run.json               the `RunInfo`
    runs/20260131-101500/records-gw0.jsonl      one line per cell, one file per writing process
    runs/20260131-101500/in-flight-gw0          the cell that this process is in; empty between cells
    runs/last                                   link to the newest run

Each process appends to a file of its own with one `write` a line, so that a process killed at any
moment costs at most its unfinished line, which readers pass over.
"""

from __future__ import annotations

import os
import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.record import SCHEMA_VERSION, Record, RunInfo, Stage

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
_STAGES = tuple(Stage)
_STAGE_CODES = {stage: number for number, stage in enumerate(_STAGES)}
#: What stands before the record in a file of what is in flight: the stage, and when it was entered.
_ENTERED = struct.Struct("<Bd")


class RunStoreError(Exception):
    """A run that cannot be read or written. The message says which folder and what to do."""


class RecordWriter:
    """Appends records to one process's file of a run."""

    def __init__(self, run: Path, process: str) -> None:
        self.path = run / f"records-{process}.jsonl"
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._drop_unfinished_line()

    def append(self, record: Record) -> None:
        self.append_encoded(_encoder.encode(record))

    def append_encoded(self, record: bytes) -> None:
        """A record as JSON in one line."""
        os.write(self._fd, record + b"\n")

    def close(self) -> None:
        os.close(self._fd)

    def _drop_unfinished_line(self) -> None:
        """A process of the same name may have been killed while it wrote; what follows must not join its line."""
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            whole, _, _ = self.path.read_bytes().rpartition(b"\n")
            os.ftruncate(self._fd, len(whole) + 1 if whole else 0)


class InFlight:
    """The cell that a process is running now, and the stage it is in, for whoever finds the process dead.

    The file holds the stage's number, the moment it was entered, and the record as it stood before the cell ran.
    Entering a stage writes nine bytes in place, so that knowing where a cell died costs a passing cell two
    microseconds a stage. A process that is forked may enter the stages of a cell that its owner began.
    """

    def __init__(self, run: Path, process: str) -> None:
        self._fd = os.open(_in_flight_path(run, process), os.O_RDWR | os.O_CREAT, 0o644)

    def begin(self, record: Record) -> bytes:
        """Note the cell; return its record as it stands in the file."""
        line = _encoder.encode(record)
        os.ftruncate(self._fd, os.pwrite(self._fd, _entered(Stage.BUILD) + line, 0))
        return line

    def enter(self, stage: Stage) -> None:
        os.pwrite(self._fd, _entered(stage), 0)

    def stage(self) -> tuple[Stage, float]:
        """The stage that the cell is in, and when it was entered, by `time.monotonic`."""
        code, when = _ENTERED.unpack(os.pread(self._fd, _ENTERED.size, 0))
        return _STAGES[code], when

    def end(self) -> None:
        os.ftruncate(self._fd, 0)

    def close(self) -> None:
        os.close(self._fd)


def read_in_flight(run: Path, process: str) -> Record | None:
    """The record of the cell that a process was in, with the stage that it had entered; None between cells."""
    try:
        data = _in_flight_path(run, process).read_bytes()
    except FileNotFoundError:
        return None
    if not data:
        return None
    code, _ = _ENTERED.unpack_from(data)
    return msgspec.structs.replace(_decoder.decode(data[_ENTERED.size :]), stage=_STAGES[code])


def _entered(stage: Stage) -> bytes:
    return _ENTERED.pack(_STAGE_CODES[stage], time.monotonic())


def _in_flight_path(run: Path, process: str) -> Path:
    return run / f"in-flight-{process}"


def create_run(root: Path, info: RunInfo) -> Path:
    """Make the folder of a new run under `root` and point `root/last` at it. Any number of processes may try."""
    run = root / info.id
    aside = root / f".{info.id}-{os.getpid()}"
    aside.mkdir(parents=True)
    (aside / "run.json").write_bytes(msgspec.json.format(_encoder.encode(info)))
    try:
        # A folder appears whole or not at all; onto one that holds something, a rename fails.
        aside.rename(run)
    except OSError:
        shutil.rmtree(aside)
        if not (run / "run.json").exists():
            raise
        return run
    aside.symlink_to(info.id)
    os.replace(aside, root / "last")
    return run


def read_info(run: Path) -> RunInfo:
    path = run / "run.json"
    try:
        info = msgspec.json.decode(path.read_bytes(), type=RunInfo)
    except FileNotFoundError:
        raise RunStoreError(f"{run} is not a run: it has no run.json. `parity run` makes one.") from None
    except msgspec.DecodeError as error:
        raise RunStoreError(f"{path} cannot be read: {error}") from error
    if info.schema_version > SCHEMA_VERSION:
        raise RunStoreError(
            f"{run} was written with schema version {info.schema_version}; "
            f"this version of onnx-parity reads up to {SCHEMA_VERSION}. Upgrade onnx-parity."
        )
    return info


def read_records(run: Path) -> Iterator[Record]:
    """Every whole record of a run; of a cell recorded twice, the last one written wins."""
    latest: dict[str, Record] = {}
    for path in sorted(run.glob("records-*.jsonl"), key=lambda p: (p.stat().st_mtime_ns, p.name)):
        data = path.read_bytes()
        whole, _, _unfinished = data.rpartition(b"\n")
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                record = _decoder.decode(line)
            except msgspec.DecodeError as error:
                raise RunStoreError(f"{path}:{number} is not a record: {error}") from error
            latest[record.cell] = record
    yield from latest.values()
