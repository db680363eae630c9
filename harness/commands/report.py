"""`parity report`: writes pages about a run. No other file of the harness imports `reports`."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from msgspec.structs import replace

from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.search.ledger import LEDGER
from onnx_parity.harness.store import read_end, read_info

if TYPE_CHECKING:
    from onnx_parity.harness.gate.findings import Finding
    from onnx_parity.reports.pages.changes import Changes


def report(
    run: Annotated[
        Path, typer.Argument(help="The folder of the run.", default_factory=defaults.last, show_default="runs/last")
    ],
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
    draw: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Draw the exported graphs of the cases or declarations with such names: 'softmax*'. Repeat it "
            "for several patterns; 'none' draws nothing. Default: all cases of a run that has up to 20, and of others "
            "one case for each cause of failures.",
        ),
    ] = None,
    single_file: Annotated[
        Path | None, typer.Option(help="Also write the whole report into this one HTML file, to mail a small run.")
    ] = None,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve",
            help="Serve the report to the browsers of this machine instead of writing it, follow the run while it goes "
            "on, and draw each case that is opened.",
        ),
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port for --serve.", show_default="any that is free")
    ] = 0,
    operators: Annotated[
        Path | None,
        typer.Option(
            help="Write this Markdown file instead: from which opset on each operator and model is right, and how "
            "much is covered of ATen's core set, PyTorch's public names, and its databases of operators and modules."
        ),
    ] = None,
    torchscript: Annotated[
        Path | None,
        typer.Option(
            help="Write this Markdown file instead: from which opset on each construct of TorchScript is exported."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the paths of what is written as JSON.")] = False,
) -> None:
    """Write the HTML report of a run: coverage by opset, failures, divergence, and every cell.

    Beside its pages stand summary.json, summary.md for a pull request, junit.xml, and a badge. docs/reports.md
    describes them.

    Exit codes: 0 if it was written; 2 if there is no such run, or nothing in it for the page that is asked for.

    Examples:

        parity report

        parity report --baseline runs/20260131-101500-4711

        parity report runs/20260131-101500-4711 --out /tmp/report

        parity report --draw "softmax*" --single-file report.html

        parity report --serve

        parity run --tier full && parity report --operators docs/operators.md
    """
    if operators is not None or torchscript is not None:
        _write_markdown(run, operators, torchscript, as_json=as_json)
        return
    if serve:
        if out is not None or single_file is not None or as_json:
            refuse("--serve writes no files: remove --out, --single-file and --json.")
        _serve(run, baseline, draw, port)
        return
    index = publish_report(run, out, baseline, draw)
    if single_file is not None:
        _write_single_file(index.parent, single_file)
    if as_json:
        print_json({"report": str(index)} | ({"single_file": str(single_file)} if single_file is not None else {}))
    else:
        print_text(f"report: {index}")


def publish_report(
    run: Path,
    out: Path | None = None,
    baseline: Path | None = None,
    draw: Sequence[str] | None = None,
    *,
    only_wrong: bool = False,
) -> Path:
    """Write the report and return its first page, or end the command if there is no run or the folder is unusable.

    With `only_wrong` no case is drawn that passes: the process that draws takes longer to begin than few cells to run.
    """
    from onnx_parity.reports.publish import ReportError

    try:
        read_info(run)
        out = out or run / "report"
        changes = None if baseline is None else _changes(baseline, run, out)
        _draw(run, draw, only_wrong=only_wrong)
        return _write(run, out, changes)
    except (RunStoreError, ReportError) as error:
        refuse(str(error))


def _write(run: Path, out: Path, changes: Changes | None, *, is_served: bool = False) -> Path:
    from onnx_parity.harness.drawing.drawings import drawings_of
    from onnx_parity.harness.results.public_names import names_for
    from onnx_parity.reports.pages.ledger import read_ledger
    from onnx_parity.reports.site import write_report

    return write_report(
        run,
        out,
        names_for(run),
        changes,
        partial(print_text, error=True),
        drawings=map(msgspec.to_builtins, drawings_of(run)),
        findings=read_ledger(defaults.project().root / LEDGER),
        places=defaults.declarations(),
        is_served=is_served,
    )


def _draw(run: Path, patterns: Sequence[str] | None, *, only_wrong: bool = False) -> None:
    """Draw the cases of a run that are asked for, and have not been drawn before."""
    from onnx_parity.harness.drawing.tasks import draw_all, tasks

    if patterns == ["none"]:
        return
    found = tasks(run, defaults.declarations(), patterns, any_subject=patterns is not None, only_wrong=only_wrong)
    if found:
        draw_all(found, read_info(run), defaults.declarations(), partial(print_text, error=True))
    elif patterns is not None:
        print_text(
            f"{', '.join(patterns)}: there is nothing to draw. No case has such a name, or they are drawn already, or "
            "their declarations are not here or have changed since the run.",
            error=True,
        )


def _write_markdown(run: Path, operators: Path | None, torchscript: Path | None, *, as_json: bool) -> None:
    import onnx_parity
    from onnx_parity.harness.results.public_names import names_for
    from onnx_parity.reports.operators import write_operators
    from onnx_parity.reports.torchscript import write_constructs

    written: dict[str, Path] = {}
    try:
        if operators is not None:
            written["operators"] = write_operators(run, operators, onnx_parity.lowered_operators(), names_for(run))
        if torchscript is not None:
            written["torchscript"] = write_constructs(run, torchscript)
    except RunStoreError as error:
        refuse(str(error))
    if as_json:
        print_json({page: str(path) for page, path in written.items()})
        return
    for page, path in written.items():
        print_text(f"{page}: {path}")


def _write_single_file(folder: Path, file: Path) -> None:
    from onnx_parity.reports.single_file import write_single_file

    size = write_single_file(folder, file)
    print_text(f"single file: {file}, {size / 1e6:.1f} MB", error=True)


def _serve(run: Path, baseline: Path | None, patterns: Sequence[str] | None, port: int) -> None:
    from onnx_parity.harness.store import record_files
    from onnx_parity.reports.publish import ReportError
    from onnx_parity.reports.server import Followed, serve

    def state() -> tuple[object, bool]:
        end = read_end(run)
        sizes = [(file.name, file.stat().st_size) for file in record_files(run)]
        return (sizes, end), end is not None

    def ready(address: str) -> None:
        print_text(f"report: {address}")
        print_text("It is shown to this machine alone. Ctrl+C ends it.", error=True)
        sys.stdout.flush()

    try:
        read_info(run)
        # A served report cannot lead to files of another folder.
        changes = None if baseline is None else replace(_changes(baseline, run, run), report="")
        if patterns is not None:
            _draw(run, patterns)
        with tempfile.TemporaryDirectory(prefix="parity-") as root:
            write = partial(_write, run, changes=changes, is_served=True)
            serve(Followed(Path(root), write, state), partial(_draw_script, run), port, ready)
    except (RunStoreError, ReportError) as error:
        refuse(str(error))


def _draw_script(run: Path, asked: dict[str, str], name: str) -> str:
    """The script that carries the drawing of the case that a page asks for."""
    from onnx_parity.harness.drawing.drawings import drawings_of
    from onnx_parity.harness.drawing.tasks import draw_all, tasks
    from onnx_parity.reports.pages.drawn import shown
    from onnx_parity.reports.pieces import script

    key = tuple(asked.get(part, "") for part in ("kind", "family", "name", "case"))
    places = defaults.declarations()
    draw_all(tasks(run, places, [key[-1]]), read_info(run), places)
    found = next((each for each in drawings_of(run) if each.key == key), None)
    # A page takes what is missing from an object of any kind.
    absent = {
        "missing": "its declaration is not here or has changed since the run, or its exporter or runtime is that of "
        "another module, which only parity report --draw uses"
    }
    return script(name, shown(msgspec.to_builtins(found)) if found is not None else absent)


def _changes(baseline: Path, run: Path, out: Path) -> Changes:
    """What changed since a baseline. A row is for all findings about a case and dtype that differ in numbers alone."""
    from onnx_parity.harness.gate.formats import outcome
    from onnx_parity.harness.gate.policy import Policy
    from onnx_parity.harness.gate.verdict import judge
    from onnx_parity.reports.pages.changes import Change, Changes

    verdict = judge(baseline, run, Policy())
    rows: dict[tuple[str, ...], list[Finding]] = {}
    for finding in verdict.findings:
        key = finding.kind, finding.case or finding.subject, re.sub(r"\d+", "", finding.detail)
        rows.setdefault(key, []).append(finding)
    own = baseline / "report" / "index.html"
    return Changes(
        baseline=verdict.baseline,
        headline=outcome(verdict),
        regressed=verdict.regressed,
        environment=verdict.environment,
        counts=[(status.words, before, now) for status, (before, now) in verdict.counts.items()],
        times_compared=verdict.times_compared,
        changes=[
            Change(
                verdict.actions[first.kind],
                first.kind, first.case, first.detail, len(alike), sorted({each.opset for each in alike if each.opset}),
                first.file, first.line, first.subject if first.opset else "",
            )
            for alike in rows.values()
            for first in alike[:1]
        ],
        coverage=[(status.words, gone, new) for status, (gone, new) in verdict.coverage.items()],
        undecided=verdict.undecided,
        report=os.path.relpath(own.parent, out) if own.exists() else "",
    )  # fmt: skip
