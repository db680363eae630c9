"""`parity query`: which cells of a run did what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.results.query import FIELDS, QueryError, parse
from onnx_parity.harness.store import RunStoreError, read_info, read_records


def query(
    question: Annotated[str, typer.Argument(help="A condition on records: 'stage == \"compare\" and opset < 11'.")],
    run: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/last"),
    fields: Annotated[str, typer.Option(help="What is shown of each record.")] = "cell,status,stage,reason",
    json: Annotated[bool, typer.Option("--json", help="Whole records, as JSON lines.")] = False,
    count: Annotated[bool, typer.Option("--count", help="Only how many there are.")] = False,
) -> None:
    """Show the cells of a run of which a condition holds.

    A condition is written as in Python, over the fields of a record: case, name, family, kind, opset, dtype, device,
    exporter, runtime, shapes, status, stage, reason, blame, metrics.headroom, seconds["export"], memory, nodes and the
    rest. `like(cell, "elu*")` and `matches(reason, "regex")` look for patterns.

    Examples:

        parity query 'stage == "compare" and opset < 11'

        parity query 'status == "passed" and metrics.headroom < 2' --fields cell,metrics.headroom

        parity query '"aten::gelu" in aten and seconds["export"] > 0.1' --json

        parity query 'status == "crashed"' --run runs/20260131-101500-4711 --count
    """
    try:
        asked = parse(question)
        columns = [_column(field) for field in fields.split(",")]
        read_info(run)
        found = list(asked.of(read_records(run)))
    except (QueryError, RunStoreError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    if not count:
        for record in found:
            if json:
                typer.echo(msgspec.json.encode(record))
            else:
                typer.echo("  ".join(_shown(column, record) for column in columns).rstrip())
    typer.echo(f"{len(found)} cells", err=not count)


def _column(text: str) -> tuple[str, ...]:
    path = tuple(text.strip().split("."))
    if path[0] not in FIELDS:
        raise QueryError(f"--fields {text.strip()}: a record has no {path[0]!r}, only {', '.join(FIELDS)}.")
    return path


def _shown(column: tuple[str, ...], record: object) -> str:
    value: object = record
    for name in column:
        value = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    return "" if value is None else str(value)
