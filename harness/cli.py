"""The `parity` command: export a model, run the matrix, write a run's report, list what there is to run."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from harness.axes import AxisError, Selection, Tier, parse_opsets
from harness.commands.doctor import doctor
from harness.commands.expect import expect
from harness.commands.export import export
from harness.commands.exporters import exporters
from harness.commands.gate import gate
from harness.commands.localise import localise
from harness.commands.merge import merge
from harness.commands.node_tests import node_tests
from harness.commands.query import query
from harness.commands.reduce import reduce as reduce_cell
from harness.commands.repro import repro
from harness.commands.show import show
from harness.comparison.command import compare
from harness.opinfo_survey import survey
from harness.store import RunStoreError, read_info

#: Where declarations stand in a clone of the project.
DECLARATIONS = (Path("op_cases"), Path("model_zoo"))
RUNS = Path("runs")

app = typer.Typer(
    name="parity",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="""PyTorch to ONNX at every opset, and the proof.

Begin with `parity run --tier smoke`: it takes under a minute and leaves a report.

Exit codes: 0 all held; 1 some cell failed; 2 stopped by the user, or used wrongly; 3 and 4 pytest itself failed;
5 nothing was selected.
""",
)

app.command()(export)
app.command()(show)
app.command()(expect)
app.command()(gate)
app.command()(query)
app.command()(merge)
app.command()(compare)
app.command()(exporters)
app.command()(localise)
app.command("reduce")(reduce_cell)
app.command()(repro)
app.command()(doctor)
app.command("node-tests")(node_tests)
app.command("opinfo-survey")(survey)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Declaration files or folders. Default: op_cases and model_zoo.")
    ] = None,
    keyword: Annotated[str, typer.Option("-k", help="Cells whose ids match: 'avg_pool2d and opset9'.")] = "",
    tier: Annotated[Tier, typer.Option(help="How much of the matrix.")] = Tier.DEFAULT,
    opsets: Annotated[str, typer.Option(help="Opsets instead of the tier's: 9,13-18.")] = "",
    devices: Annotated[str, typer.Option(help="Devices instead of the tier's: cpu,cuda.")] = "",
    workers: Annotated[str, typer.Option("-n", help="Processes: a number, or auto for one a core.")] = "auto",
    resume: Annotated[
        Path | None, typer.Option(help="A run that was stopped: run what it lacks, with its own options.")
    ] = None,
    report: Annotated[bool, typer.Option(help="Write the HTML report when the run is over.")] = True,
) -> None:
    """Run cells of the matrix, and write the report of the run.

    Every cell runs in a worker process, so that one which crashes takes no other with it. Any other option is
    handed to pytest: see `pytest --help`, under "the matrix of cells".

    Examples:

        parity run --tier smoke

        parity run op_cases/activation.py -k "elu and opset9"

        parity run --opsets 7-9 --dtypes float16 --seed 3

        parity run model_zoo --exporters parity,torch_dynamo

        parity run --resume runs/last

        parity run --shard 2/8 --durations-of runs/20260131-101500-4711
    """
    if resume is not None:
        raise typer.Exit(_resume(resume, workers, report=report))
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "--tier", tier.value]
    command += ["-k", keyword] if keyword else []
    command += ["--opsets", opsets] if opsets else []
    command += ["--devices", devices] if devices else []
    command += [*context.args, *map(str, paths or DECLARATIONS)]
    before = _last_run()
    code = _pytest(command)
    after = _last_run()
    if report and after is not None and after != before:
        write(after)
    raise typer.Exit(code)


@app.command("report")
def write(
    run: Annotated[Path, typer.Argument(help="The run's folder.")] = RUNS / "last",
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: report/ in the run's folder.")] = None,
) -> None:
    """Write the HTML report of a run.

    Examples:

        parity report

        parity report runs/20260131-101500-4711 --out /tmp/report
    """
    from reports.site import write_report

    try:
        index = write_report(run, out or run / "report")
    except RunStoreError as error:
        _refuse(str(error))
    typer.echo(f"report: {index}")


@app.command()
def operators(
    run: Annotated[Path, typer.Argument(help="The run's folder.")] = RUNS / "last",
    out: Annotated[Path, typer.Option(help="Where to write.")] = Path("docs") / "operators.md",
) -> None:
    """Write, from a run, since which opset each operator exports and is right, and why not earlier.

    Examples:

        parity run --tier full && parity operators
    """
    import exporter
    from reports.operators import write_operators

    try:
        written = write_operators(run, out, exporter.lowered_operators())
    except RunStoreError as error:
        _refuse(str(error))
    typer.echo(f"operators: {written}")


@app.command("list")
def list_cases(
    pattern: Annotated[str, typer.Argument(help="Names of cases, with * and ?: 'avg_pool*'.")] = "*",
    tier: Annotated[Tier, typer.Option(help="The tier whose cells are counted.")] = Tier.DEFAULT,
    opsets: Annotated[str, typer.Option(help="Opsets instead of the tier's: 9,13-18.")] = "",
    cells: Annotated[bool, typer.Option("--cells", help="Every cell's id rather than the cases.")] = False,
) -> None:
    """List the cases, where they are declared, and how many cells the tier takes of each.

    Examples:

        parity list

        parity list "avg_pool*" --tier full

        parity list elu --cells --opsets 9
    """
    from harness.cells import cells_of
    from harness.declarations import declared_under

    try:
        selection = Selection(tier=tier, opsets=parse_opsets(opsets) if opsets else None)
    except AxisError as error:
        _refuse(str(error))
    sys.path.insert(0, str(Path.cwd()))
    found: Counter[tuple[str, str]] = Counter()
    for directory in DECLARATIONS:
        for name, declaration in declared_under(directory):
            place = f"{directory}/{declaration.file.name}:{declaration.line}"
            for cell in cells_of(name, declaration, selection):
                if fnmatch(cell.case.label, pattern) or fnmatch(name, pattern):
                    found[cell.case.label, place] += 1
                    if cells:
                        typer.echo(cell.id)
    if not cells:
        width = max((len(label) for label, _ in found), default=0)
        for (label, place), number in found.items():
            typer.echo(f"{label:{width}}  {number:4} cells  {place}")
    typer.echo(f"{len(found)} cases, {found.total()} cells", err=cells)


def _resume(run: Path, workers: str, *, report: bool) -> int:
    try:
        given = read_info(run).argv
    except RunStoreError as error:
        _refuse(str(error))
    folder = run.resolve()
    code = _pytest([sys.executable, "-m", "pytest", *given, "-n", workers, "--resume", str(folder)])
    if report:
        write(folder)
    return code


def _pytest(command: list[str]) -> int:
    typer.echo(f"$ pytest {shlex.join(command[3:])}")
    return subprocess.run(command, check=False).returncode


def _last_run() -> Path | None:
    last = RUNS / "last"
    return last.resolve() if last.exists() else None


def _refuse(message: str) -> NoReturn:
    """End a command that was used wrongly."""
    typer.echo(message, err=True)
    raise typer.Exit(2)
