"""`parity report` and `parity operators`: pages from a run. Here, and nowhere else, the harness knows `reports`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.commands.defaults import LAST, refuse
from onnx_parity.harness.store import RunStoreError

_Run = Annotated[Path, typer.Argument(help="The run's folder.")]
_AsJson = Annotated[bool, typer.Option("--json", help="Where it was written, as JSON.")]


def report(
    run: _Run = LAST,
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: report/ in the run's folder.")] = None,
    as_json: _AsJson = False,
) -> None:
    """Write the HTML report of a run.

    Examples:

        parity report

        parity report runs/20260131-101500-4711 --out /tmp/report
    """
    index = written_report(run, out)
    typer.echo(msgspec.json.encode({"report": str(index)}) if as_json else f"report: {index}")


def written_report(run: Path, out: Path | None = None) -> Path:
    """Write the report, or end the command where there is no run, or no place for it."""
    from onnx_parity.reports.publish import ReportError
    from onnx_parity.reports.site import write_report

    try:
        return write_report(run, out or run / "report")
    except (RunStoreError, ReportError) as error:
        refuse(str(error))


def operators(
    run: _Run = LAST,
    out: Annotated[Path, typer.Option(help="Where to write.")] = Path("docs") / "operators.md",
    as_json: _AsJson = False,
) -> None:
    """Write, from a run, since which opset each operator exports and is right, and why not earlier.

    Examples:

        parity run --tier full && parity operators
    """
    import onnx_parity
    from onnx_parity.reports.operators import write_operators

    try:
        written = write_operators(run, out, onnx_parity.lowered_operators())
    except RunStoreError as error:
        refuse(str(error))
    typer.echo(msgspec.json.encode({"operators": str(written)}) if as_json else f"operators: {written}")
