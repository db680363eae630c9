"""`parity report`, `parity operators` and `parity torchscript`: write pages about a run. No other file of the harness
imports `reports`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.gate.formats import headline
from onnx_parity.harness.gate.policy import Policy
from onnx_parity.harness.gate.verdict import Verdict, judge
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import read_info

if TYPE_CHECKING:
    from onnx_parity.reports.pages.changes import Changes

_Run = Annotated[
    Path, typer.Argument(help="The folder of the run.", default_factory=defaults.last, show_default="runs/last")
]
_AsJson = Annotated[bool, typer.Option("--json", help="Print the path of the written page as JSON.")]


def report(
    run: _Run,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder to write the report to. An earlier report there is replaced; other files in the folder "
            "are kept. Default: report/ in the run's folder."
        ),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="The folder of an earlier run. A page of the report says what changed since.")
    ] = None,
    as_json: _AsJson = False,
) -> None:
    """Write the HTML report of a run: coverage by opset, failures, divergence, and every cell.

    Beside its pages stand summary.json, summary.md for a pull request, and a badge. docs/reports.md describes them.

    Examples:

        parity report

        parity report --baseline runs/20260131-101500-4711

        parity report runs/20260131-101500-4711 --out /tmp/report
    """
    index = written_report(run, out, baseline)
    if as_json:
        print_json({"report": str(index)})
    else:
        print_text(f"report: {index}")


def written_report(run: Path, out: Path | None = None, baseline: Path | None = None) -> Path:
    """Write the report and return its first page, or end the command if there is no run or the folder is unusable."""
    from onnx_parity.harness.surface.public_names import names_for
    from onnx_parity.reports.publish import ReportError
    from onnx_parity.reports.site import write_report

    try:
        read_info(run)
        changes = None if baseline is None else _changes(judge(baseline, run, Policy()))
        tell = partial(print_text, error=True)
        return write_report(run, out or run / "report", names_for(run), changes, tell)
    except (RunStoreError, ReportError) as error:
        refuse(str(error))


def _changes(verdict: Verdict) -> Changes:
    from onnx_parity.reports.pages.changes import Change, Changes

    return Changes(
        baseline=verdict.baseline,
        headline=headline(verdict),
        regressed=verdict.regressed,
        environment=verdict.environment,
        counts=[(status.words, before, now) for status, (before, now) in verdict.counts.items()],
        times_compared=verdict.times_compared,
        changes=[
            Change(
                verdict.actions[cause.kind],
                cause.kind,
                cause.subject,
                cause.detail,
                cause.findings,
                cause.opsets,
                cause.file,
                cause.line,
            )
            for cause in verdict.causes
        ],
    )


def operators(
    run: _Run,
    out: Annotated[Path, typer.Option(help="The Markdown file to write.")] = Path("docs") / "operators.md",
    as_json: _AsJson = False,
) -> None:
    """Write a Markdown table of the opset from which on each operator and model exports and is right.

    Examples:

        parity run --tier full && parity operators
    """
    import onnx_parity
    from onnx_parity.reports.operators import write_operators

    try:
        written = write_operators(run, out, onnx_parity.lowered_operators())
    except RunStoreError as error:
        refuse(str(error))
    if as_json:
        print_json({"operators": str(written)})
    else:
        print_text(f"operators: {written}")


def torchscript(
    run: _Run,
    out: Annotated[Path, typer.Option(help="The Markdown file to write.")] = Path("docs") / "torchscript.md",
    as_json: _AsJson = False,
) -> None:
    """Write a Markdown table of the constructs of TorchScript, and the opset from which on each is exported.

    Examples:

        parity run op_cases/script*.py --opsets 9-18 && parity torchscript
    """
    from onnx_parity.reports.torchscript import write_constructs

    try:
        written = write_constructs(run, out)
    except RunStoreError as error:
        refuse(str(error))
    if as_json:
        print_json({"torchscript": str(written)})
    else:
        print_text(f"torchscript: {written}")
