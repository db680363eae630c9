"""Damages the files of a run, for the tests of its readers and for `python -m benchmarks.faults`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from onnx_parity.harness.record import SCHEMA_VERSION, RunEnd, Status
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import read_in_flight, read_info, read_records
from tests.records import INFO, RECORD, write_run

__all__ = ["RECORDS", "a_run", "damages", "told"]

RECORDS = [
    replace(RECORD, cell=f"cell{number}", case=f"case{number}", nodeid=f"x::{number}", began=float(number), reason=text)
    for number, text in enumerate(("", "naïve → 日本", 'quotes "{\\"', "line\nbreak", "}", ""))
]


def a_run(root: Path, name: str, *, fails: bool = False) -> Path:
    """A whole run of `RECORDS`, of which the last fails if asked to."""
    records = [*RECORDS[:-1], replace(RECORDS[-1], status=Status.FAILED if fails else Status.PASSED)]
    info = replace(INFO, id=name, schema_version=SCHEMA_VERSION, platform="Linux", cpus=2)
    return write_run(root, records, info, RunEnd("2026-01-31T10:16:00+00:00", whole=True, cells=len(records)))


def _damaged(content: bytes, draw: random.Random) -> bytes:
    """The content with a byte deleted, changed or doubled."""
    at = draw.randrange(len(content))
    put = draw.choice((b"", content[at : at + 1] * 2, bytes([draw.randrange(256)]), b"\n", b"\xff"))
    return content[:at] + put + content[at + 1 :]


def damages(run: Path, tries: int) -> Iterator[str]:
    """Damage a file of the run, yield its name, and mend it; so many times."""
    draw = random.Random(0)
    contents = {path: path.read_bytes() for path in sorted(run.glob("*.json*"))}
    for _ in range(tries):
        path = draw.choice(list(contents))
        path.write_bytes(_damaged(contents[path], draw))
        yield path.name
        path.write_bytes(contents[path])


def told(run: Path) -> str:
    """In what words a run is refused; empty if it is read."""
    try:
        read_info(run)
        read_in_flight(run, "gw0")
        return read_records(run).damage
    except RunStoreError as error:
        return str(error)
