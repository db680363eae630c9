"""The run store: a folder per run, to which records are appended while it runs, and which can be read at any time.

    runs/20260131-101500/run.json               the `RunInfo`
    runs/20260131-101500/records-gw0.jsonl      one line per cell, one file per writing process
    runs/20260131-101500/in-flight-gw0          the cell that this process is running, if any
    runs/20260131-101500/stderr-gw0.txt         what that cell wrote to its standard error
    runs/20260131-101500/end.json               the `RunEnd`, once the run has ended
    runs/20260131-101500/records.parquet        the records as columns, if a large run has ended; see `columnar.py`
    runs/last                                   link to the newest run

Each process appends to a file of its own, with one `write` for each line. If it is killed, at most its last line is
incomplete; readers skip such a line. All JSON ends with a checksum, so that a damaged file is not read as another run:
readers take the records that are whole, and say how many are not, and where (`Records.unreadable`).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import struct
import time
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import msgspec

from onnx_parity.harness.columnar import FILE as COLUMNS
from onnx_parity.harness.columnar import Columns, DeclarationKey, declaration_of, open_columns, write_columns
from onnx_parity.harness.record import SCHEMA_VERSION, Kind, Record, RunEnd, RunInfo, Stage, Status
from onnx_parity.harness.run_store_error import RunStoreError

_T = TypeVar("_T")


class _Key(msgspec.Struct):
    """What decides which of several records of a cell counts, and the declaration."""

    cell: str
    kind: Kind
    family: str
    name: str
    status: Status
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
#: How a record begins, and the end of JSON with a checksum.
_BEGINNING, _CHECKSUM = b'{"cell":', re.compile(rb',\s*"crc":\s?"([0-9a-f]{8})"\s*\}\s*\Z')
_CELL = re.compile(rb'\{"cell":("(?:[^"\\\\]|\\\\.)*")')
#: What decoding raises for text that is not JSON of the type, is not UTF-8, or is nested a thousand times.
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
#: At most so many places of unreadable records are named.
_NAMED = 5


class _Damaged(Exception):
    """JSON that is not what was written. The message says how."""


class Records(list[Record]):
    """The records of a run, and what could not be read of it."""

    def __init__(self, run: Path, records: Iterable[Record], unreadable: Iterable[str], missing: int) -> None:
        super().__init__(records)
        self._run = run
        #: Where a record is damaged, and how.
        self.unreadable = tuple(unreadable)
        #: How many cells of the run have no record any longer.
        self.missing = missing

    @property
    def damage(self) -> str:
        """A sentence for the user on what could not be read; empty if all could."""
        if not self.unreadable and not self.missing:
            return ""
        found = []
        if self.unreadable:
            more = len(self.unreadable) - _NAMED
            places = [*self.unreadable[:_NAMED], *([f"and {more} more"] if more > 0 else [])]
            lines = "1 line" if len(self.unreadable) == 1 else f"{len(self.unreadable)} lines"
            found.append(f"{lines} cannot be read ({'; '.join(places)})")
        if self.missing:
            found.append(f"the records of {self.missing} of its {len(self) + self.missing} cells are lost")
        again = f"To run these cells again: parity run --resume {shlex.quote(str(self._run))}"
        return f"{self._run} is damaged: {' and '.join(found)}. {again}"


class RecordWriter:
    """Appends records to one process's file of a run."""

    def __init__(self, run: Path, process: str) -> None:
        self.path = run / f"records-{process}.jsonl"
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._drop_unfinished_line()

    def append(self, record: Record) -> bytes:
        """Write the record; return it as JSON in one line."""
        line = _encode(record)
        self.append_lines(_seal(line) + b"\n")
        return line

    def append_lines(self, left: bytes) -> None:
        """Write records that are lines already."""
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            # On a full disk the beginning of a line may have been written.
            self._drop_unfinished_line()
            raise

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        os.close(self._fd)

    def _drop_unfinished_line(self) -> None:
        """Remove an incomplete last line of a killed process of this name, so that records can be appended."""
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            whole, _, last = self.path.read_bytes().rpartition(b"\n")
            if _is_whole(last):
                os.write(self._fd, b"\n")
            else:
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
        line = _encode(record)
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
        return _in_flight(_content(_in_flight_path(run, process)))
    except FileNotFoundError:
        return None


def _in_flight(data: bytes) -> Record | None:
    if len(data) < _BEFORE_RECORD:
        return None
    code, _ = _ENTERED.unpack_from(data)
    (length,) = _LENGTH.unpack_from(data, _ENTERED.size)
    if not length or code >= len(_STAGES):
        return None
    try:
        record = _decoder.decode(data[_BEFORE_RECORD : _BEFORE_RECORD + length])
    except _UNDECODABLE:
        return None  # The process died while it wrote this, or the file is damaged.
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
    (aside / "run.json").write_bytes(_seal(msgspec.json.format(_encode(info))))
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
        info = msgspec.json.decode(_unseal(_content(path)), type=RunInfo)
    except (FileNotFoundError, NotADirectoryError):
        raise RunStoreError(f"{run} is not a run: it has no run.json. `parity run` makes one.") from None
    except (*_UNDECODABLE, _Damaged) as error:
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
        aside.write_bytes(_seal(msgspec.json.format(_encode(end))))
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
        return msgspec.json.decode(_unseal(_content(run / "end.json")), type=RunEnd)
    except FileNotFoundError:
        return None
    except (*_UNDECODABLE, _Damaged) as error:
        raise RunStoreError(
            f"{run / 'end.json'} cannot be read: {error}. Remove the file; the run then counts as unfinished."
        ) from error


def read_records(run: Path) -> Records:
    """Every whole record of a run. If a cell has several, the one that began last is returned, but rather one of a cell
    that ended than of one that crashed: those are run again, perhaps after the clock was set back.
    """
    columns = read_columns(run)
    return read_lines(run) if columns is None else Records(run, columns.records(), (), 0)


def damage_of(run: Path) -> str:
    """`Records.damage`. A run that has columns has none, and its records are not read."""
    return "" if read_columns(run) is not None else read_lines(run).damage


def read_lines(run: Path) -> Records:
    """What `read_records` returns, always from the lines, which are what a resumed run goes on with."""
    latest: dict[str, Record] = {}
    #: The cell, where that can still be read, and the place of each line that cannot be read.
    broken: list[tuple[str, str]] = []
    try:
        end = read_end(run)
    except RunStoreError as error:
        end, broken = None, [("", str(error).removeprefix(f"{run}{os.sep}"))]
    for path in record_files(run):
        *lines, last = _content(path).split(b"\n")
        places = [(line, number) for number, line in enumerate(lines, 1) if line]
        how = [(number, wrong) for line, number in places if (wrong := _take(line, latest)) is not None]
        # The process that writes the last line may not be through yet. Once the run has ended, it is.
        if last and (wrong := _take(last, latest)) is not None and end is not None:
            how.append((len(lines) + 1, wrong))
        broken += [(cell, f"{path.name}:{number}: {reason}") for number, (cell, reason) in how]
    # A cell that was run again has lost nothing.
    unreadable = [words for cell, words in broken if cell not in latest]
    return Records(run, latest.values(), unreadable, max((end.cells if end is not None else 0) - len(latest), 0))


def set_aside_unreadable(run: Path) -> None:
    """Move the lines that cannot be read to a file of their own, because a resumed run runs their cells again."""
    for path in record_files(run):
        lines = [line + b"\n" for line in _content(path).split(b"\n") if line]
        broken = [line for line in lines if _take(line[:-1], {}) is not None]
        if broken:
            with (run / "unreadable.txt").open("ab") as aside:
                aside.writelines(broken)
            whole = path.with_suffix(".whole")
            whole.write_bytes(b"".join(line for line in lines if line not in broken))
            os.replace(whole, path)


def read_columns(run: Path) -> Columns | None:
    """The columns of a run that has ended, which are written now if that has not been done. None if the run is small,
    or if not all of it can be read: its lines say what is damaged.
    """
    files = record_files(run)
    about = [path.stat() for path in files]
    is_large = sum(each.st_size for each in about) >= _WORTH_COLUMNS
    if not is_large or not all(stat.S_ISREG(each.st_mode) for each in about):
        return None
    path = run / COLUMNS
    try:
        end = read_end(run)
        if end is None:
            return None
        lines = describe_lines(run)
        columns = open_columns(path, lines)
        if columns is None:
            latest, declared = _latest(files)
            write_columns(path, _read_whole(files, latest), declared, lines)
            columns = open_columns(path, lines)
    except (OSError, RunStoreError, *_UNDECODABLE, _Damaged):
        # Something is damaged; or the disk is full or read-only, and the lines are read each time.
        return None
    return columns if columns is not None and len(columns) >= end.cells else None


def describe_lines(run: Path) -> list[tuple[str, int, str]]:
    """The name and size of every file of records, and a hash of its end, by which it is known to be the same."""
    return [_describe_file(file) for file in record_files(run)]


def _describe_file(path: Path) -> tuple[str, int, str]:
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _HASHED))
        return path.name, size, blake2b(file.read(), digest_size=8).hexdigest()


def _read_whole(files: Sequence[Path], latest: Mapping[str, int]) -> Iterator[Record]:
    """The records that count, one at a time. A line that is damaged raises an error."""
    for number, record in enumerate(_decode_lines(files, _decoder)):
        if latest.get(record.cell, number) == number:
            yield record


def _latest(files: Sequence[Path]) -> tuple[dict[str, int], Counter[DeclarationKey]]:
    """For every cell with several records, the number of the line that counts; and the lines of every declaration.

    A million ids would take a quarter of a gigabyte, so that only their hashes are kept, and the ids of those that
    occur twice.
    """
    hashes, declared = array("q"), Counter[DeclarationKey]()
    for key in _decode_lines(files, _key_decoder):
        hashes.append(hash(key.cell))
        declared[declaration_of(key)] += 1
    twice = {one for one, other in pairwise(sorted(hashes)) if one == other}
    latest: dict[str, tuple[tuple[bool, float], int]] = {}
    if twice:
        for number, key in enumerate(_decode_lines(files, _key_decoder)):
            if hash(key.cell) in twice and (key.cell not in latest or _counts_more(key) >= latest[key.cell][0]):
                latest[key.cell] = _counts_more(key), number
    return {cell: number for cell, (_, number) in latest.items()}, declared


def _decode_lines(files: Iterable[Path], decoder: msgspec.json.Decoder[_T]) -> Iterator[_T]:
    """Every line of the files."""
    for path in files:
        with path.open("rb") as lines:
            for line in lines:
                text = line.rstrip(b"\n")
                if text:
                    yield decoder.decode(_unseal(text))


def record_files(run: Path) -> list[Path]:
    """The files with a run's records, in the order in which they were last written to."""
    try:
        # Not `glob`, for which a folder that may not be listed is empty.
        files = [run / name for name in os.listdir(run) if name.startswith("records-") and name.endswith(".jsonl")]
    except OSError as error:
        raise RunStoreError(f"{run} cannot be read: {error.strerror}.") from error
    return sorted(files, key=lambda path: (path.stat().st_mtime_ns, path.name))


def _take(line: bytes, latest: dict[str, Record]) -> tuple[str, str] | None:
    """Add the records of a line, which are several if the ends of lines were lost. If one of them cannot be read,
    return its cell, if that is known, and the reason.
    """
    wrong = None
    try:
        found = [_decoder.decode(_unseal(line))]
    except (*_UNDECODABLE, _Damaged) as error:
        found = list(_whole_within(line))
        if len(found) < max(line.count(_BEGINNING), 1):
            wrong = ("" if found else _cell_of(line), str(error))
    for record in found:
        before = latest.get(record.cell)
        if before is None or _counts_more(record) >= _counts_more(before):
            latest[record.cell] = record
    return wrong


def _cell_of(line: bytes) -> str:
    """The cell of a damaged record; empty if that is damaged, too."""
    cell = _CELL.match(line)
    try:
        return msgspec.json.decode(cell[1], type=str) if cell is not None else ""
    except _UNDECODABLE:
        return ""


def _whole_within(line: bytes) -> Iterator[Record]:
    for part in line.split(_BEGINNING)[1:]:
        text = _BEGINNING + part
        try:
            yield _decoder.decode(_unseal(text[: text.rfind(b"}") + 1]))
        except (*_UNDECODABLE, _Damaged):
            continue


def _counts_more(record: Record | _Key) -> tuple[bool, float]:
    return record.status is not Status.CRASHED, record.began


def _is_whole(line: bytes) -> bool:
    try:
        _decoder.decode(_unseal(line))
    except (*_UNDECODABLE, _Damaged):
        return False
    return True


def _encode(value: Record | RunInfo | RunEnd) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # Names of files may hold halves of characters, which UTF-8 has no bytes for.
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode("utf-8", "replace")


def _seal(text: bytes) -> bytes:
    """A JSON object with its own checksum as its last field."""
    return b'%s,"crc":"%08x"}' % (text[:-1], zlib.crc32(text))


def _unseal(text: bytes) -> bytes:
    """The object without its checksum. Earlier versions wrote none."""
    end = _CHECKSUM.search(text, max(len(text) - 40, 0))
    if end is None:
        return text
    text, crc = text[: end.start()] + b"}", int(end[1], 16)
    if zlib.crc32(text) != crc:
        raise _Damaged("its content does not have its checksum")
    return text


def _content(path: Path) -> bytes:
    """The content of a regular file. A pipe would be waited for, and a device may have no end."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise RunStoreError(f"{path} is not a regular file: no run has a pipe, a device or a folder in its place.")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise RunStoreError(f"{path} cannot be read: {error.strerror}.") from error
