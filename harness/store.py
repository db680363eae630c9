"""The run store: a folder per run, appended to as outcomes come, readable at any moment.

    runs/20260131-101500/run.json               the `RunInfo`
    runs/20260131-101500/records-gw0.jsonl      one line per cell, one file per writing process
    runs/last                                   link to the newest run

Each process appends to a file of its own with one `write` a line, so that a process killed at any
moment costs at most its unfinished line, which readers pass over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.record import SCHEMA_VERSION, Record, RunInfo

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)


class RunStoreError(Exception):
    """A run that cannot be read or written. The message says which folder and what to do."""


class RecordWriter:
    """Appends records to one process's file of a run."""

    def __init__(self, run: Path, process: str) -> None:
        self.path = run / f"records-{process}.jsonl"
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def append(self, record: Record) -> None:
        os.write(self._fd, _encoder.encode(record) + b"\n")

    def close(self) -> None:
        os.close(self._fd)


def create_run(root: Path, info: RunInfo) -> Path:
    """Make the folder of a new run under `root` and point `root/last` at it."""
    run = root / info.id
    run.mkdir(parents=True, exist_ok=False)
    (run / "run.json").write_bytes(msgspec.json.format(_encoder.encode(info)))
    aside = root / f".last-{info.id}"
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
