"""`parity run`: cells of the matrix, by way of pytest."""

from __future__ import annotations

import shlex
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer
from rich.console import Console

from onnx_parity.harness.axes import Tier
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.defaults import LAST, refuse
from onnx_parity.harness.commands.exporters import show
from onnx_parity.harness.commands.report import written_report
from onnx_parity.harness.commands.stopping import exit_code_of
from onnx_parity.harness.results.exporters_compared import compare
from onnx_parity.harness.store import RunStoreError, read_info, read_records

#: pytest tells options that make no sense and a selection of nothing apart; every command of ours ends alike.
_USED_WRONGLY, _PYTEST_USED_WRONGLY = 2, (4, 5)
_PYTEST_FAILED = 3
_WITH_PLACES = ("--runs", "--resume", "--since", "--durations-of")
#: A line for the pace now and then, rather than a dot a cell and a percentage. What a cell warns of is no outcome, and
#: setting up pytest's filters for each takes longer than to tell of it.
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-o", "console_output_style=classic", "--pace", "-p", "no:warnings")


def run(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Declaration files or folders. Default: op_cases and model_zoo.")
    ] = None,
    keyword: Annotated[str, typer.Option("-k", help="Cells whose ids match: 'avg_pool2d and opset9'.")] = "",
    tier: Annotated[Tier, typer.Option(help="How much of the matrix.")] = Tier.DEFAULT,
    opsets: Annotated[str | None, typer.Option(help="Opsets instead of the tier's: 9,13-18.")] = None,
    devices: Annotated[str | None, typer.Option(help="Devices instead of the tier's: cpu,cuda.")] = None,
    workers: Annotated[str, typer.Option("-n", help="Processes: a number, or auto for one a core.")] = "auto",
    runs: Annotated[Path, typer.Option(help="Where runs are kept.")] = defaults.RUNS,
    resume: Annotated[
        Path | None, typer.Option(help="A run that was stopped: run what it lacks, with its own options.")
    ] = None,
    report: Annotated[bool, typer.Option(help="Write the HTML report when the run is over.")] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="What became of the run, as JSON; all else goes to standard error.")
    ] = False,
) -> None:
    """Run cells of the matrix, and write the report of the run; of several exporters, show them beside each other.

    Exit code: 0 all held; 1 some cell failed; 2 used wrongly, nothing was selected, or stopped; 3 pytest itself failed.

    Every cell runs in a worker process, so that one which crashes takes no other with it. Any other option is
    handed to pytest: see `pytest --help`, under "the matrix of cells".

    Examples:

        parity run --tier smoke

        parity run op_cases/activation.py -k "elu and opset9"

        parity run --opsets 7-9 --dtypes float16 --seed 3

        parity run op_cases/scripts.py --tier smoke --exporters parity,torch_dynamo,torch_script

        parity run --resume runs/last

        parity run --shard 2/8 --durations-of runs/20260131-101500-4711
    """
    if not (workers.isdecimal() or workers in ("auto", "logical")):
        refuse(f"-n {workers}: write a number of processes from 0 on, auto or logical.")
    if resume is not None:
        _refuse_options_of_its_own(context)
        code, run = _resume(resume, workers, quiet=as_json)
        _tell(run, code, report=report, as_json=as_json)
    command = [*_PYTEST, "-n", workers, "--tier", tier.value]
    command += ["-k", keyword] if keyword else []
    command += ["--opsets", opsets] if opsets is not None else []
    command += ["--devices", devices] if devices is not None else []
    command += [f"--runs={runs}"] if runs != defaults.RUNS else []
    # pytest alone can tell places from the values of its own options, and looks here when it is given none.
    command += ["-o", f"testpaths={shlex.join(map(str, defaults.DECLARATIONS))}"]
    command += _in_one_word([*context.args, *map(str, paths or ())])
    before = _last_run(runs)
    code = _pytest(command, quiet=as_json)
    after = _last_run(runs)
    _tell(after if after != before else None, code, report=report, as_json=as_json)


#: What of a command line goes with `--resume`: nothing that says which cells are run, or how.
_WITH_RESUME = ("resume", "workers", "report", "as_json")


def _refuse_options_of_its_own(context: typer.Context) -> None:
    """A run that goes on has the options that it was begun with."""
    given = [
        each.opts[0]
        for each in context.command.params
        if each.name not in (*_WITH_RESUME, "paths") and _is_given(context, str(each.name))
    ]
    # What is handed to pytest stands among the paths.
    given += [*context.args, *map(str, context.params["paths"] or ())]
    if given:
        refuse(
            f"--resume goes on with the options that the run was begun with: leave out {shlex.join(given)}. "
            "Only -n, --report, --no-report and --json go with it."
        )


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _resume(run: Path, workers: str, *, quiet: bool) -> tuple[int, Path]:
    try:
        given = read_info(run).argv
    except RunStoreError as error:
        refuse(str(error))
    folder = run.resolve()
    command = [sys.executable, "-m", "pytest", *_in_one_word(given), "-n", workers, f"--resume={folder}"]
    return _pytest(command, quiet=quiet), folder


def _in_one_word(words: Sequence[str]) -> Iterator[str]:
    """The words of a command line, our options joined to the places that they take: pytest looks for its configuration
    around whatever word is a place, and where that is another one than the project's, there are no cells."""
    rest = iter(words)
    for word in rest:
        yield f"{word}={next(rest, '')}" if word in _WITH_PLACES else word


def _pytest(command: list[str], *, quiet: bool) -> int:
    typer.echo(f"$ pytest {shlex.join(command[3:])}", err=quiet)
    sys.stdout.flush()
    code = exit_code_of(command, sys.stderr if quiet else None)
    if code < 0:
        # A signal that nobody passed on: the system kills so when memory runs out.
        typer.echo(f"pytest was killed by {signal.Signals(-code).name}", err=True)
        return _PYTEST_FAILED
    return _USED_WRONGLY if code in _PYTEST_USED_WRONGLY else code


def _tell(run: Path | None, code: int, *, report: bool, as_json: bool) -> NoReturn:
    """What became of the run: None where nothing was selected."""
    index = written_report(run) if report and run is not None else None
    if index is not None and not as_json:
        typer.echo(f"report: {index}")
    records = list(read_records(run)) if run is not None else []
    if not as_json and len({record.exporter for record in records}) > 1:
        show(compare(records), Console(), every=False)
    if as_json:
        counts = Counter(record.status for record in records)
        told = {"run": run and str(run), "report": index and str(index), "exit_code": code, "cells": len(records)}
        typer.echo(msgspec.json.encode({**told, "counts": counts}))
    raise typer.Exit(code)


def _last_run(runs: Path) -> Path | None:
    last = runs / LAST.name
    return last.resolve() if last.exists() else None
