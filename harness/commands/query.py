"""`parity query`: lists the cells of a run that satisfy a condition."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse, warn_of_damage, warn_of_shortcomings
from onnx_parity.harness.record import Record
from onnx_parity.harness.results.query import FIELDS, Query, QueryError, parse
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import read_columns, read_records

#: What a Parquet file begins with.
_PARQUET = b"PAR1"


def query(
    question: Annotated[
        str, typer.Argument(metavar="CONDITION", help="A condition on records: 'stage == \"compare\" and opset < 11'.")
    ],
    run: Annotated[
        Path, typer.Option(help="The folder of the run.", default_factory=defaults.last, show_default="runs/last")
    ],
    fields: Annotated[
        str, typer.Option(help="The fields to print of each record, separated by commas.")
    ] = "cell,status,stage,reason",
    json: Annotated[bool, typer.Option("--json", help="Print whole records, one line of JSON each.")] = False,
    count: Annotated[bool, typer.Option("--count", help="Print only the number of matching cells.")] = False,
    parquet: Annotated[
        Path | None, typer.Option(help="Write whole records to this Parquet file instead of printing them.")
    ] = None,
) -> None:
    """Print the cells of a run that satisfy a condition.

    The condition is written as in Python, over the fields of a record: case, name, family, kind, opset, dtype, device,
    exporter, runtime, shapes, status, stage, reason, blame, metrics.headroom, seconds["export"], memory, nodes and the
    rest. `like(cell, "elu*")` matches a pattern with * and ?, `matches(reason, "regex")` a regular expression.

    Exit codes: 0 if the condition was evaluated, whether or not cells match; 2 if the command was used wrongly.

    Examples:

        parity query 'stage == "compare" and opset < 11'

        parity query 'status == "passed" and metrics.headroom < 2' --fields cell,metrics.headroom

        parity query '"aten::gelu" in aten and seconds["export"] > 0.1' --json

        parity query 'status == "crashed"' --run runs/20260131-101500-4711 --count

        parity query True --parquet cells.parquet
    """
    try:
        condition = parse(question)
        columns = [_column(field) for field in fields.split(",")]
        warn_of_shortcomings(run)
        found, matching = _find_matching(condition, run)
        if parquet is not None:
            _write(parquet, matching)
        elif not count:
            for record in matching():
                if json:
                    print_json(record)
                else:
                    print_text("  ".join(_value(column, record) for column in columns).rstrip())
    except (QueryError, RunStoreError) as error:
        refuse(str(error))
    print_text(f"{found} {'cell' if found == 1 else 'cells'}", error=not count)


def _write(file: Path, matching: Callable[[], Iterable[Record]]) -> None:
    from onnx_parity.harness.columnar import declaration_of, write_columns

    if file.is_file() and file.stat().st_size and not _is_parquet(file):
        refuse(f"{file} exists and is no Parquet file: name another one, so that it is not lost.")
    try:
        write_columns(file, matching(), Counter(map(declaration_of, matching())), [])
    except OSError as error:
        # Arrow's own text names the file that is written first, and repeats the number of the error.
        why = os.strerror(error.errno) if error.errno else str(error)
        refuse(f"{file} cannot be written: {why}. Name a file in a folder that exists.")


def _is_parquet(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_PARQUET)) == _PARQUET


def _find_matching(condition: Query, run: Path) -> tuple[int, Callable[[], Iterable[Record]]]:
    """How many records satisfy the condition, and what reads those records."""
    columns = read_columns(run)
    if columns is None:
        records = read_records(run)
        warn_of_damage(records)
        matching = list(condition.of(records))
        return len(matching), lambda: matching
    rows = condition.rows(columns)
    return len(rows), partial(columns.records_at, rows)


def _column(text: str) -> tuple[str, ...]:
    path = tuple(text.strip().split("."))
    if path[0] not in FIELDS:
        raise QueryError(f"--fields {text.strip()}: a record has no field {path[0]!r}. It has {', '.join(FIELDS)}.")
    return path


def _value(column: tuple[str, ...], record: object) -> str:
    value: object = record
    for name in column:
        value = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    return "" if value is None else str(value)
