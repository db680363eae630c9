"""`parity scoreboard`: what each runtime makes of the models of a run, operator by operator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json
from onnx_parity.harness.escaping import visible_line
from onnx_parity.harness.opset_ranges import opset_ranges
from onnx_parity.harness.record import Ending
from onnx_parity.harness.results.scoreboard import GRAVE, Score, Scoreboard, score

#: At most this many findings are listed without `--all`.
_FINDINGS = 40


def scoreboard(
    runs: Annotated[list[Path] | None, typer.Argument(help="The folders of the runs. Default: the last run.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="List every finding, and operators on which all runtimes do alike.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scoreboard as JSON.")] = False,
) -> None:
    """Show what each runtime makes of the models of a run: right, wrong, crashed, hung, refused or unsupported.

    What a runtime claims to support and gets wrong comes first, with the likely cause and with how many of the other
    runtimes are right on the same model. A table of operators and models follows: the gravest ending of each runtime,
    and the opsets at which it occurs. A transformed model is a column of its own: `onnxslim → onnxruntime`.

    *seconds*: to load and run the models, and to compare the results. *shared*: the reference, the export, the check
    and the transformations. They are done once for a model, in the cells of the runtime that gets it first, so that a
    further runtime costs its own seconds only.

    *refused*: an error that does not say that something is not supported. *unsupported*: the runtime says so.

    Exit codes: 0 if no runtime is wrong, crashes or hangs; 1 if one does; 2 if the command was used wrongly.

    Examples:

        parity run op_cases/activation.py --tier smoke --runtimes onnxruntime,openvino,tract; parity scoreboard

        parity scoreboard runs/20260131-101500-4711 --all
    """
    board = defaults.of_runs(runs, score)
    if as_json:
        print_json(board)
    else:
        show(board, Console(width=None), every=every)
    raise typer.Exit(1 if board.findings else 0)


def show(board: Scoreboard, terminal: Console, *, every: bool) -> None:
    for each in board.findings if every else board.findings[:_FINDINGS]:
        blame = f" ({each.blame})" if each.blame else ""
        others = f"; {each.others_right} of {each.others} other runtimes are right" if each.others else ""
        text = f"{each.ending}: {each.subject}: {each.case} {each.dtype} opset {opset_ranges(each.opsets)}"
        terminal.print(
            visible_line(f"{text} {each.stage}{blame}{others}: {each.reason}"),
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    if len(board.findings) > _FINDINGS and not every:
        terminal.print(f"{len(board.findings) - _FINDINGS} more: --all lists them.")
    columns = ("runtime", *(str(ending) for ending in Ending), "seconds", "shared")
    table = Table(*columns, box=None, header_style="bold")
    for subject in board.subjects:
        counts = board.totals[subject]
        numbers = (str(counts.get(ending, 0)) for ending in Ending)
        times = (f"{seconds[subject]:.1f}" for seconds in (board.seconds, board.shared_by))
        table.add_row(escape(visible_line(subject)), *numbers, *times)
    terminal.print(table)
    shown = [row for row in board.rows if every or not row.all_alike]
    if shown:
        table = Table("family", "name", *map(escape, board.subjects), box=None, header_style="bold")
        for row in shown:
            cells = (_cell(row.scores.get(subject)) for subject in board.subjects)
            table.add_row(escape(visible_line(row.family)), escape(visible_line(row.name)), *cells)
        terminal.print(table)
    alike = len(board.rows) - len(shown)
    if alike:
        terminal.print(f"{alike} operators and models on which all runtimes do alike: --all lists them.")


def _cell(of: Score | None) -> str:
    """`right 12`, or the gravest ending with its opsets: `wrong 3/12 at 9-13`."""
    if of is None:
        return ""
    number, gravest = sum(of.cells.values()), of.gravest
    if of.cells.get(gravest) == number:
        text = f"{gravest} {number}"
    else:
        text = f"{gravest} {of.cells[gravest]}/{number} at {opset_ranges(of.opsets[gravest])}"
    return f"[red]{text}[/red]" if gravest in GRAVE else text if gravest is Ending.RIGHT else f"[yellow]{text}[/yellow]"
