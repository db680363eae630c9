"""The run store: a folder per run, to which records are appended while it runs, and which can be read at any time.

    runs/20260131-101500/run.json               the `RunInfo`
    runs/20260131-101500/records-gw0.jsonl      one line per cell, one file per writing process
    runs/20260131-101500/in-flight-gw0          the cell that this process is running, if any
    runs/20260131-101500/stderr-gw0.txt         what that cell wrote to its standard error
    runs/20260131-101500/end.json               the `RunEnd`, once the run has ended
    runs/20260131-101500/records.parquet        the records as columns, if a large run has ended; see `columnar.py`
    runs/last                                   link to the newest run

Each process appends to a file of its own, with one `write` for each line. If it is killed, at most its last line is
incomplete; readers skip such a line.
"""

from __future__ import annotations

import math
import os
import shutil
import struct
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import msgspec

from onnx_parity.harness.columnar import FILE as COLUMNS
from onnx_parity.harness.columnar import Columns, open_columns, write_columns
from onnx_parity.harness.record import SCHEMA_VERSION, Record, RunEnd, RunInfo, Stage

_T = TypeVar("_T")


class _Key(msgspec.Struct):
    """What decides which of several records of a cell counts."""

    cell: str
    began: float = 0.0


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
_key_decoder = msgspec.json.Decoder(_Key)
#: Lines of fewer bytes, about 15,000 records, are read in half a second. Columns would not be worth a file.
_WORTH_COLUMNS = 20 << 20
_HASHED = 1 << 16
_STAGES = tuple(Stage)
_STAGE_CODES = {stage: number for number, stage in enumerate(_STAGES)}
#: The header of an in-flight file: the stage and the time when it began, then the length of the record that follows,
#: which is 0 between cells. Truncating the file between cells instead would take 25 microseconds per cell.
_ENTERED = struct.Struct("<Bd")
_LENGTH = struct.Struct("<I")
_BEFORE_RECORD = _ENTERED.size + _LENGTH.size


class RunStoreError(Exception):
    """A run that cannot be read or written. The message names the folder and what to do."""


class RecordWriter:
    """Appends records to one process's file of a run."""

    def __init__(self, run: Path, process: str) -> None:
        self.path = run / f"records-{process}.jsonl"
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._drop_unfinished_line()

    def append(self, record: Record) -> bytes:
        """Write the record; return it as JSON in one line."""
        line = _encoder.encode(record)
        left = line + b"\n"
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            # On a full disk the beginning of the line may have been written.
            self._drop_unfinished_line()
            raise
        return line

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        os.close(self._fd)

    def _drop_unfinished_line(self) -> None:
        """Remove an incomplete last line of a killed process of this name, so that records can be appended."""
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            whole, _, _ = self.path.read_bytes().rpartition(b"\n")
            os.ftruncate(self._fd, len(whole) + 1 if whole else 0)


class InFlight:
    """The cell that a process is running and its current stage, kept in a file so that a crash can be attributed.

    The file holds the stage's number, the time at which it began, and the record as it was before the cell ran.
    Entering a stage overwrites nine bytes, which takes two microseconds. A forked process may enter the stages of a
    cell that its parent began.
    """

    def __init__(self, run: Path, process: str) -> None:
        self._fd = os.open(_in_flight_path(run, process), os.O_RDWR | os.O_CREAT, 0o644)

    def begin(self, record: Record) -> None:
        line = _encoder.encode(record)
        os.pwrite(self._fd, _entered(Stage.BUILD) + _LENGTH.pack(len(line)) + line, 0)

    def enter(self, stage: Stage) -> None:
        os.pwrite(self._fd, _entered(stage), 0)

    def stage(self) -> tuple[Stage, float]:
        """The current stage of the cell that began last, and when it began, by `time.monotonic`."""
        entered = os.pread(self._fd, _ENTERED.size, 0)
        if not entered:
            return Stage.BUILD, 0.0
        code, when = _ENTERED.unpack(entered)
        return _STAGES[code], when

    def record(self) -> Record | None:
        """The record of the running cell, with its current stage; None between cells."""
        return _in_flight(os.pread(self._fd, os.fstat(self._fd).st_size, 0))

    def fileno(self) -> int:
        return self._fd

    def end(self) -> None:
        os.pwrite(self._fd, _LENGTH.pack(0), _ENTERED.size)

    def close(self) -> None:
        os.close(self._fd)


def read_in_flight(run: Path, process: str) -> Record | None:
    """The record of the cell that a process was running, with its stage; None if it was between cells."""
    try:
        return _in_flight(_in_flight_path(run, process).read_bytes())
    except FileNotFoundError:
        return None


def _in_flight(data: bytes) -> Record | None:
    if len(data) < _BEFORE_RECORD:
        return None
    code, _ = _ENTERED.unpack_from(data)
    (length,) = _LENGTH.unpack_from(data, _ENTERED.size)
    if not length:
        return None
    record = _decoder.decode(data[_BEFORE_RECORD : _BEFORE_RECORD + length])
    return msgspec.structs.replace(record, stage=_STAGES[code])


def _entered(stage: Stage) -> bytes:
    return _ENTERED.pack(_STAGE_CODES[stage], time.monotonic())


def _in_flight_path(run: Path, process: str) -> Path:
    return run / f"in-flight-{process}"


def create_run(root: Path, info: RunInfo) -> Path:
    """Create the folder of a run under `root` and link `root/last` to it. Several processes may do so at once."""
    run = root / info.id
    aside = root / f".{info.id}-{os.getpid()}"
    aside.mkdir(parents=True)
    (aside / "run.json").write_bytes(msgspec.json.format(_encoder.encode(info)))
    try:
        # The rename makes the folder appear complete. It fails if another process has created the folder already.
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
    except (FileNotFoundError, NotADirectoryError):
        raise RunStoreError(f"{run} is not a run: it has no run.json. `parity run` makes one.") from None
    except msgspec.DecodeError as error:
        raise RunStoreError(
            f"{path} cannot be read as the description of a run: {error}. Run the cells again."
        ) from error
    if info.schema_version > SCHEMA_VERSION:
        raise RunStoreError(
            f"{run} was written with schema version {info.schema_version}; "
            f"this version of onnx-parity reads up to {SCHEMA_VERSION}. Upgrade onnx-parity."
        )
    return info


def write_end(run: Path, end: RunEnd) -> None:
    aside = run / f".end-{os.getpid()}"
    try:
        aside.write_bytes(msgspec.json.format(_encoder.encode(end)))
        os.replace(aside, run / "end.json")
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def forget_end(run: Path) -> None:
    """Remove the end of a run that is resumed."""
    (run / "end.json").unlink(missing_ok=True)


def read_end(run: Path) -> RunEnd | None:
    """The end of the run; None if it is still running, was killed, or has schema version 1."""
    try:
        return msgspec.json.decode((run / "end.json").read_bytes(), type=RunEnd)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise RunStoreError(
            f"{run / 'end.json'} cannot be read: {error}. Remove the file; the run then counts as unfinished."
        ) from error


def read_records(run: Path) -> Iterator[Record]:
    """Every complete record of a run. If a cell has several records, only the one that began last is returned."""
    columns = read_columns(run)
    return _read_lines(run) if columns is None else columns.records()


def read_columns(run: Path) -> Columns | None:
    """The columns of a run that has ended, which are written now if that has not been done; None if it is small."""
    size = sum(path.stat().st_size for path in record_files(run))
    if size < _WORTH_COLUMNS or not (run / "end.json").exists():
        return None
    path = run / COLUMNS
    lines = described_lines(run)
    columns = open_columns(path, lines)
    if columns is None:
        try:
            write_columns(path, _read_lines(run), lines)
        except OSError:
            # The run is on a disk that is full or read-only: its lines are read each time.
            return None
        columns = open_columns(path, lines)
    return columns


def described_lines(run: Path) -> list[tuple[str, int, str]]:
    """The name and size of every file of records, and a hash of its end, by which it is known to be the same."""
    return [_described(file) for file in record_files(run)]


def _described(path: Path) -> tuple[str, int, str]:
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _HASHED))
        return path.name, size, blake2b(file.read(), digest_size=8).hexdigest()


def _read_lines(run: Path) -> Iterator[Record]:
    files = record_files(run)
    latest = _latest(files)
    for number, record in enumerate(_decoded(files, _decoder)):
        if latest.get(record.cell, number) == number:
            yield record


def _latest(files: Sequence[Path]) -> dict[str, int]:
    """For every cell with several records, the number of the line that counts.

    A million ids would take a quarter of a gigabyte, so that only their hashes are kept, and the ids of those that
    occur twice.
    """
    hashes = array("q", (hash(key.cell) for key in _decoded(files, _key_decoder)))
    twice = {one for one, other in pairwise(sorted(hashes)) if one == other}
    latest: dict[str, tuple[float, int]] = {}
    if twice:
        for number, key in enumerate(_decoded(files, _key_decoder)):
            if hash(key.cell) in twice and key.began >= latest.get(key.cell, (-math.inf, 0))[0]:
                latest[key.cell] = key.began, number
    return {cell: number for cell, (_, number) in latest.items()}


def _decoded(files: Iterable[Path], decoder: msgspec.json.Decoder[_T]) -> Iterator[_T]:
    """Every complete line of the files. The last line of one may be incomplete, if its process was killed."""
    for path in files:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    yield decoder.decode(line)
                except msgspec.DecodeError as error:
                    raise RunStoreError(
                        f"{path}:{number} is not a record: {error}. Remove this line, and run "
                        f"`parity run --resume {path.parent}`."
                    ) from error


def record_files(run: Path) -> list[Path]:
    """The files with a run's records, in the order in which they were last written to."""
    return sorted(run.glob("records-*.jsonl"), key=lambda path: (path.stat().st_mtime_ns, path.name))
