"""`parity exporters`: a table that compares the exporters of one or more runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json
from onnx_parity.harness.escaping import visible_line
from onnx_parity.harness.record import GRAVEST_FIRST, Status

if TYPE_CHECKING:
    from onnx_parity.harness.results.exporters_compared import ComparedCell, Comparison, OperatorStandings

#: At most this many causes are listed without `--all`.
_CAUSES = 40


def exporters(
    runs: Annotated[list[Path] | None, typer.Argument(help="The folders of the runs. Default: the last run.")] = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="List every cause, and every operator, also where all exporters have the same outcome."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare the outcomes of several exporters, opset by opset and operator by operator, from one run or several.

    `parity run` with several exporters prints the same tables at its end. Only combinations of case, dtype, opset,
    device, capture, shapes, runtime and transformations that every exporter ran are counted. The status of an operator
    is the worst of its cells. Of models that more than one exporter exports rightly, the numbers of nodes are compared.
    What this exporter refuses or gets wrong is listed by its cause, and where another one passes, cell by cell.
    `parity query True --json` prints every single outcome.

    Exit codes: 0 if this exporter passes wherever another one does; 1 if it does not; 2 if the command was used
    wrongly.

    Examples:

        parity run op_cases/scripts.py --tier smoke --exporters parity,torch_dynamo,torch_script

        parity run op_cases/opinfo.py -k "opinfo.clamp" --exporters parity,torch_dynamo,torch_script --opsets 9,18

        parity run op_cases/operator_database.py --samples 4 --opsets 7,9,13 --no-report; parity exporters --all

        parity exporters runs/20260131-101500-4711 runs/20260131-111500-4712 --all
    """
    from onnx_parity.harness.results.exporters_compared import compare

    comparison = defaults.of_runs(runs, compare)
    if as_json:
        print_json(comparison)
    else:
        show(comparison, Console(width=None), every=every)
    raise typer.Exit(1 if comparison.behind else 0)


def show(comparison: Comparison, terminal: Console, *, every: bool) -> None:
    """Print the table, and the cells at which another exporter passes and this project's does not."""
    seen = {status for counts in comparison.totals.values() for status in counts}
    statuses = [status for status in reversed(GRAVEST_FIRST) if status in seen]
    table = Table(
        "exporter", "opset", *(status.words for status in statuses), "median export", box=None, header_style="bold"
    )
    for each in comparison.by_opset:
        took = "" if each.export_milliseconds is None else f"{each.export_milliseconds} ms"
        numbers = (str(each.counts.get(status, 0)) for status in statuses)
        table.add_row(_plain(each.exporter), str(each.opset), *numbers, took)
    terminal.print(table)
    terminal.print()
    for title, counts in (("cells", comparison.totals), ("operators and models", comparison.by_operator)):
        table = Table(title, *(status.words for status in statuses), box=None, header_style="bold")
        for exporter in comparison.exporters:
            table.add_row(_plain(exporter), *(str(counts[exporter].get(status, 0)) for status in statuses))
        terminal.print(table)
        terminal.print()
    shown = [row for row in comparison.rows if every or not row.all_alike]
    if shown:
        table = Table("family", "operator", *map(_plain, comparison.exporters), box=None, header_style="bold")
        for row in shown:
            table.add_row(
                _plain(row.family), _plain(row.name), *(_cell(row, exporter) for exporter in comparison.exporters)
            )
        terminal.print(table)
    alike = len(comparison.rows) - len(shown)
    terminal.print(
        f"{comparison.common} cells that every exporter ran; {comparison.others} that only some ran, not counted. "
        + (f"{alike} operators with the same outcome everywhere: --all lists them." if alike else ""),
        highlight=False,
        soft_wrap=True,
    )
    for culprit, number in comparison.not_theirs.items():
        terminal.print(escape(visible_line(f"not counted: {number} points, where {culprit} is to blame")))
    for reason, number in comparison.absent.items():
        terminal.print(
            f"{number} cells could not run with any exporter, and are not counted: {visible_line(reason)}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    listed = comparison.missed if every else comparison.missed[:_CAUSES]
    for cause in listed:
        _print(terminal, f"parity: {cause.status.words}: {cause.subject}: {cause.extent}: {cause.detail}")
    if len(comparison.missed) > len(listed):
        _print(terminal, f"{len(comparison.missed) - len(listed)} more causes: --all lists them.")
    for point in comparison.behind:
        _print(terminal, f"another exporter passes where parity does not: {_words(point)}")
    graphs = comparison.graphs
    if compared := graphs.fewer + graphs.as_many + len(graphs.more):
        _print(
            terminal,
            f"nodes of {compared} graphs of models that another exporter exports too: parity has fewer than the "
            f"smallest of theirs in {graphs.fewer}, as many in {graphs.as_many}, and more in {len(graphs.more)}",
        )
    for larger in graphs.more:
        nodes = ", ".join(f"{exporter} {larger.nodes[exporter]}" for exporter in sorted(larger.nodes))
        _print(terminal, f"another exporter has fewer nodes: {_words(larger.point)}: {nodes}")


def _words(point: ComparedCell) -> str:
    text = f"{point.case} {point.dtype} opset {point.opset} {point.shapes}"
    return text + (f", {point.transforms} → {point.runtime}" if point.transforms else f", {point.runtime}")


def _print(terminal: Console, text: str) -> None:
    terminal.print(visible_line(text), markup=False, highlight=False, soft_wrap=True)


def _plain(name: str) -> str:
    """A name as it is: rich would read brackets as its own markup."""
    return escape(visible_line(name))


def _cell(row: OperatorStandings, exporter: str) -> str:
    standing = row.standings[exporter]
    if standing.gravest is Status.PASSED:
        return str(standing)
    return (
        f"[red]{standing}[/red]"
        if standing.gravest in (Status.CRASHED, Status.FAILED)
        else f"[yellow]{standing}[/yellow]"
    )
