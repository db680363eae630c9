"""`parity scoreboard`: what each runtime makes of the models of a run, operator by operator."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.escaping import visible_line
from onnx_parity.harness.opset_ranges import opset_ranges
from onnx_parity.harness.record import Ending
from onnx_parity.harness.results.scoreboard import GRAVE, Finding, Score, Scoreboard, score
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import read_info

#: At most this many findings are listed without `--all`.
_FINDINGS = 40
_ENDLESS = 10_000


def scoreboard(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="The folders of the runs, and with --site of submissions too. Default: the last run."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="List every finding by itself, and operators on which all runtimes do alike.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scoreboard as JSON.")] = False,
    site: Annotated[Path | None, typer.Option(help="Write it as a site to this folder instead.")] = None,
    pack: Annotated[Path | None, typer.Option(help="The conformance pack of the submissions.")] = None,
) -> None:
    """Show what each runtime makes of the models of a run: right, wrong, crashed, hung, refused or unsupported.

    What a runtime claims to support and gets wrong comes first, with the likely cause and with how many of the other
    runtimes are right on the same model. Those that one expectation explains share a line, after what no expectation
    explains. A table of operators and models follows: the gravest ending of each runtime, and the opsets at which it
    occurs. A transformed model is a column of its own: `onnxslim → onnxruntime`.

    *seconds*: to load and run the models, and to compare the results. *shared*: the reference, the export, the check
    and the transformations. They are done once for a model, in the cells of the runtime that gets it first, so that a
    further runtime costs its own seconds only.

    *refused*: an error that does not say that something is not supported. *unsupported*: the runtime says so.

    With `--site`, a folder of static pages is written, of any number of runs, and of submissions of the conformance
    pack: lists of tests, operators by runtimes and opsets, history, badges, and what reproduces each test.

    Exit codes: 0 if no runtime is wrong, crashes or hangs where no expectation or waiver says so; 1 if one does; 2 if
    the command was used wrongly.

    Examples:

        parity run op_cases/activation.py --tier smoke --runtimes onnxruntime,openvino,tract; parity scoreboard

        parity scoreboard runs/20260131-101500-4711 --all

        parity scoreboard my-submission other-submission runs/last --pack my-pack --site scoreboard
    """
    if site is not None:
        raise typer.Exit(_write_site(runs or [defaults.last()], site, pack, as_json=as_json))
    board = defaults.of_runs(runs, score)
    if as_json:
        print_json(board)
    else:
        # In a file or a pipe no line has to fit, so that no name is cut off.
        show(board, Console(width=None if sys.stdout.isatty() else _ENDLESS), every=every)
    raise typer.Exit(1 if any(not each.known for each in board.findings) else 0)


def _write_site(folders: Sequence[Path], site: Path, pack: Path | None, *, as_json: bool) -> int:
    """Write the site of runs and submissions, and return the exit code."""
    from onnx_parity.harness.conformance.entries import Entry, of_judgement, of_run
    from onnx_parity.harness.conformance.judging import judge_submission, open_pack
    from onnx_parity.harness.conformance.manifest import PackError
    from onnx_parity.harness.conformance.submission import GRAVE as GRAVE_RESULTS
    from onnx_parity.harness.conformance.submission import SUBMISSION
    from onnx_parity.reports.publish import ReportError
    from onnx_parity.reports.scoreboard_site import write_scoreboard

    entries: list[Entry] = []
    try:
        opened = open_pack(pack) if pack is not None else None
        for folder in folders:
            if not (folder / SUBMISSION).exists():
                entries += defaults.of_runs([folder], partial(of_run, info=read_info(folder)))
            elif opened is None:
                refuse(f"{folder} is a submission: name the pack that it ran with --pack.")
            else:
                entries.append(of_judgement(judge_submission(folder, opened)))
        page = write_scoreboard(entries, site, pack)
    except (PackError, ReportError, RunStoreError) as error:
        refuse(str(error))
    grave = sum(test.result in GRAVE_RESULTS and not test.waived for entry in entries for test in entry.tests)
    if as_json:
        print_json({"page": str(page), "entries": len(entries), "wrong": grave})
    else:
        print_text(f"{page}: {len(entries)} {'runtime' if len(entries) == 1 else 'runtimes'}")
    return 1 if grave else 0


def show(board: Scoreboard, terminal: Console, *, every: bool) -> None:
    groups = [[each] for each in board.findings] if every else _alike(board.findings)
    for alike in groups if every else groups[:_FINDINGS]:
        terminal.print(visible_line(_line(alike)), markup=False, highlight=False, soft_wrap=True)
    if len(groups) > _FINDINGS and not every:
        terminal.print(f"{len(groups) - _FINDINGS} more: --all lists them.")
    columns = ("runtime", *(str(ending) for ending in Ending), "seconds", "shared")
    table = Table(*columns, box=None, header_style="bold")
    for subject in board.subjects:
        counts = board.totals[subject]
        numbers = (str(counts.get(ending, 0)) for ending in Ending)
        times = (f"{seconds[subject]:.1f}" for seconds in (board.seconds, board.shared_by))
        table.add_row(escape(visible_line(subject)), *numbers, *times)
    terminal.print(table)
    for culprit, number in board.not_theirs.items():
        line = f"not counted: {number} cells, whose results {culprit} is to blame for"
        terminal.print(visible_line(line), markup=False, highlight=False, soft_wrap=True)
    shown = [row for row in board.rows if every or not row.all_alike]
    if shown:
        several = len({opset for row in board.rows for each in row.scores.values() for opset in _opsets(each)}) > 1
        table = Table("family", "name", *map(escape, board.subjects), box=None, header_style="bold")
        for row in shown:
            cells = (_cell(row.scores.get(subject), with_opsets=several) for subject in board.subjects)
            table.add_row(escape(visible_line(row.family)), escape(visible_line(row.name)), *cells)
        terminal.print(table)
    alike_rows = len(board.rows) - len(shown)
    if alike_rows:
        terminal.print(f"{alike_rows} operators and models on which all runtimes do alike: --all lists them.")


def _alike(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Findings of a runtime that one expectation explains; each of the others by itself."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for number, each in enumerate(findings):
        groups.setdefault((each.ending, each.subject, each.known or number), []).append(each)
    return list(groups.values())


def _line(alike: Sequence[Finding]) -> str:
    """The first of findings that are alike, with how many there are."""
    first, more = alike[0], len(alike) - 1
    blame = f" ({first.blame})" if first.blame else ""
    number = f", and {more} more alike" if more else ""
    others = f"; {first.others_right} of {first.others} other runtimes are right" if first.others else ""
    known = f"known: {first.known}" if first.known else first.reason
    text = f"{first.ending}: {first.subject}: {first.case} {first.dtype} opset {opset_ranges(first.opsets)}"
    return f"{text} {first.stage}{blame}{number}{others}: {known}"


def _opsets(of: Score) -> Iterator[int]:
    return itertools.chain.from_iterable(of.opsets.values())


def _cell(of: Score | None, *, with_opsets: bool) -> str:
    """`right 12`, or the gravest ending with its opsets, if the run has several: `wrong 3/12 at 9-13`."""
    if of is None:
        return ""
    number, gravest = sum(of.cells.values()), of.gravest
    if of.cells.get(gravest) == number:
        text = f"{gravest} {number}"
    else:
        at = f" at {opset_ranges(of.opsets[gravest])}" if with_opsets else ""
        text = f"{gravest} {of.cells[gravest]}/{number}{at}"
    return f"[red]{text}[/red]" if gravest in GRAVE else text if gravest is Ending.RIGHT else f"[yellow]{text}[/yellow]"
