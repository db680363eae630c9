"""`parity exporters`: the exporters of some runs beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from onnx_parity.harness.record import GRAVEST_FIRST, Status
from onnx_parity.harness.results.exporters_compared import Comparison, Row, compare
from onnx_parity.harness.store import RunStoreError, read_info, read_records


def exporters(
    runs: Annotated[list[Path] | None, typer.Argument(help="Runs' folders. Default: the last run.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Also the operators at which all fare alike.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="All of it, as JSON.")] = False,
) -> None:
    """Show how the exporters of a run, or of several runs together, fare with each operator and model.

    A run of several exporters shows this at its end.

    Only points that every one of the exporters ran count. An operator's status is the gravest of its cells'.

    Exit codes: 0 wherever a peer is right, so is parity; 1 not so; 2 used wrongly.

    Examples:

        parity run op_cases/scripts.py --tier smoke --exporters parity,torch_dynamo,torch_script

        parity exporters --all

        parity exporters runs/20260131-101500-4711 runs/20260131-111500-4712 --all
    """
    folders = runs or [Path("runs/last")]
    try:
        for run in folders:
            read_info(run)
        comparison = compare(record for run in folders for record in read_records(run))
    except RunStoreError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    if as_json:
        typer.echo(msgspec.json.encode(comparison))
    else:
        show(comparison, Console(width=None), every=every)
    raise typer.Exit(1 if comparison.behind else 0)


def show(comparison: Comparison, terminal: Console, *, every: bool) -> None:
    """The table, and where a peer is right and this project's exporter is not."""
    seen = {status for counts in comparison.totals.values() for status in counts}
    statuses = [status for status in reversed(GRAVEST_FIRST) if status in seen]
    for title, counts in (("cells", comparison.totals), ("operators and models", comparison.by_operator)):
        table = Table(title, *(status.words for status in statuses), box=None, header_style="bold")
        for exporter in comparison.exporters:
            table.add_row(exporter, *(str(counts[exporter].get(status, 0)) for status in statuses))
        terminal.print(table)
        terminal.print()
    shown = [row for row in comparison.rows if every or not row.all_alike]
    if shown:
        table = Table("family", "operator", *comparison.exporters, box=None, header_style="bold")
        for row in shown:
            table.add_row(row.family, row.name, *(_cell(row, exporter) for exporter in comparison.exporters))
        terminal.print(table)
    alike = len(comparison.rows) - len(shown)
    terminal.print(
        f"{comparison.common} points that all ran; {comparison.others} that only some did. "
        + (f"{alike} operators at which all fare alike: --all." if alike else ""),
        highlight=False,
    )
    for point in comparison.behind:
        text = f"a peer is right and parity is not: {point.case} {point.dtype} opset {point.opset} {point.shapes}"
        terminal.print(text, markup=False, highlight=False, soft_wrap=True)


def _cell(row: Row, exporter: str) -> str:
    standing = row.standings[exporter]
    if standing.gravest is Status.PASSED:
        return str(standing)
    return (
        f"[red]{standing}[/red]"
        if standing.gravest in (Status.CRASHED, Status.FAILED)
        else f"[yellow]{standing}[/yellow]"
    )
