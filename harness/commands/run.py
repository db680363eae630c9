"""`parity run`: runs cells of the matrix, by calling pytest."""

from __future__ import annotations

import difflib
import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from onnx_parity.harness.axes import Tier
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.exporters import show
from onnx_parity.harness.commands.report import publish_report
from onnx_parity.harness.commands.stopping import exit_code_of
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse, shortcomings_of
from onnx_parity.harness.pytest_plugin.options import HERE, OPTIONS, like_option, prefix_option, with_prefix
from onnx_parity.harness.record import WRONG, Status
from onnx_parity.harness.results.causes import causes_of
from onnx_parity.harness.results.profile import describe_profile, profile_of
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import Records, read_end, read_info, read_lines, read_records, record_files

#: pytest has an exit code for invalid options and another one for an empty selection. `parity` ends with 2 for both.
_USED_WRONGLY, _INVALID_OPTIONS, _NOTHING_SELECTED = 2, 4, 5
_PYTEST_FAILED = 3
#: Seconds between looks for the folder of a run that begins.
_LOOK = 1.0
_OPTIONS_WITH_PATHS = tuple(map(prefix_option, ("runs", "resume", "since", "reuse", "durations-of")))
#: A progress line from time to time instead of a dot for every cell. Warnings are not outcomes of cells, and setting up
#: pytest's filters for them would take longer than many cells.
_SHOWN = ("-q", "-o", "console_output_style=classic", prefix_option("pace"), "-p", "no:warnings")
_PYTEST = (sys.executable, "-m", "pytest", *_SHOWN)


def run(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files or folders of declarations. Default: those of the settings.")
    ] = None,
    keyword: Annotated[
        str, typer.Option("-k", help="Run only cells whose ids match this expression: 'avg_pool2d and opset9'.")
    ] = "",
    tier: Annotated[
        Tier | None,
        typer.Option(help="How many opsets, dtypes and cases to run.", show_default="that of the settings, or default"),
    ] = None,
    opsets: Annotated[str | None, typer.Option(help="Opsets to run instead of those of the tier: 9,13-18.")] = None,
    devices: Annotated[
        str | None, typer.Option(help="Devices to run on instead of those of the tier: cpu,cuda.")
    ] = None,
    workers: Annotated[
        str,
        typer.Option(
            "-n", help="The number of worker processes, or auto: one per core, and none where few cells are selected."
        ),
    ] = "auto",
    on: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER",
            help="Run the cells on a Ray cluster: host:port, or ray for RAY_ADDRESS or a cluster of this machine. With "
            "the address of its Jobs API, http://host:8265, or jobs for RAY_API_SERVER_ADDRESS, the run is sent there "
            "and goes on when this terminal is closed.",
            show_default="here",
        ),
    ] = None,
    follow: Annotated[
        str | None,
        typer.Option(
            metavar="JOB",
            help="Follow a run that was sent to a cluster, by the name of its job, or last: its folder fills here.",
        ),
    ] = None,
    keep: Annotated[
        str, typer.Option(help="Of a run that is sent: a folder of the cluster, such as a shared disk, to keep it in.")
    ] = "",
    python: Annotated[
        str, typer.Option(help="Of a run that is sent: the Python of the cluster that has onnx-parity.")
    ] = "python",
    runs: Annotated[
        Path | None, typer.Option(help="The folder in which the run is created.", show_default="runs")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="A run that was stopped: its folder. The cells that it lacks are run, with its own options."),
    ] = None,
    report: Annotated[bool, typer.Option(help="Write the HTML report at the end.")] = True,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Serve the report while cells run, and print its address."),
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Print where the time of the run went, by stage and by worker.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON; all other output goes to standard error.")
    ] = False,
) -> None:
    """Run cells of the matrix and write the HTML report. With several exporters, a table compares them at the end.

    A cell exports a case at one opset, dtype and device, runs the model, and compares its outputs with PyTorch's. Each
    cell runs in a worker process, so that a crash ends no other cell. Options that are not listed here are passed on to
    pytest: `pytest --help` lists them under "the matrix of cells".

    Exit codes: 0 if no cell failed; 1 if some did; 2 if the command was used wrongly, was stopped, or no cell was
    selected; 3 if pytest itself failed, or a record could not be written.

    Examples:

        parity run --tier smoke

        parity run op_cases/activation.py -k "elu and opset9"

        parity run --opsets 7-9 --dtypes float16 --seed 3

        parity run op_cases/scripts.py --tier smoke --exporters parity,torch_dynamo,torch_script

        parity run --resume runs/last

        parity run --tier smoke --profile

        parity run --serve

        parity run --reuse ~/.cache/parity

        parity run --shard 2/8 --durations-of runs/20260131-101500-4711

        parity run --tier full --on 10.0.0.5:6379

        parity run --tier full --on http://10.0.0.5:8265 --keep /mnt/shared/runs

        parity run --follow last --on http://10.0.0.5:8265
    """
    from onnx_parity.harness.commands import job

    if follow is not None:
        _refuse_other_options(context, "follow", ("on", "runs", "report", "as_json"), "is about a run that was sent")
        job.follow(follow, on, runs, report=report, as_json=as_json)
    if not (workers.isdecimal() or workers in ("auto", "logical")):
        refuse(f"-n {workers} is not a number of processes. Write 0 or a larger number, auto, or logical.")
    if resume is not None:
        why = "continues a run with the options that it was started with"
        _refuse_other_options(context, "resume", ("workers", "on", "report", "profile", "as_json"), why)
        code, run = _resume(resume, workers, on, quiet=as_json)
        _end(run, code, report=report, profile=profile, as_json=as_json)
    _refuse_missing([*context.args, *map(str, paths or ())])
    if not any(path.exists() for path in paths or ()):
        _refuse_elsewhere()
    options = ["-k", keyword] if keyword else []
    for name, value in (("tier", tier), ("opsets", opsets), ("devices", devices)):
        options += [f"{prefix_option(name)}={value}"] if value is not None else []
    if job.is_jobs_address(on):
        if runs is not None:
            refuse("--runs is for runs of this machine: leave it out, or give it with --follow.")
        if serve:
            refuse("--serve is for runs of this machine: leave it out.")
        if profile:
            refuse("--profile is for runs of this machine: leave it out.")
        options += ["-n", workers] if _is_given(context, "workers") else []
        words = [*options, *context.args, *map(str, paths or ())]
        job.send(str(on), words, keep=keep, python=python, as_json=as_json)
    for name in ("keep", "python"):
        if _is_given(context, name):
            refuse(f"--{name} is for a run that is sent to a cluster: give its address, --on http://10.0.0.5:8265.")
    command = [*_PYTEST, *_workers(workers, on), *options]
    command += [f"{prefix_option('runs')}={runs}"] if runs is not None else []
    # Only pytest can distinguish paths from the values of its own options. Without paths it runs these folders.
    command += ["-o", f"testpaths={shlex.join(map(str, defaults.declarations()))}"]
    words = [*context.args, *map(str, paths or ())]
    command += _with_joined_paths(words)
    folder = runs or defaults.runs()
    before = _runs_in(folder)
    with _served(folder) if serve else nullcontext(_not_served) as begun:
        code, process = _pytest(command, quiet=as_json, begun=begun)
    if code == _NOTHING_SELECTED and keyword:
        similar = _similar_names(keyword, paths or defaults.declarations())
        print_text(f"No cell of this tier matches -k '{keyword}'. {similar}", error=True)
    elif code == _NOTHING_SELECTED:
        named = shlex.join(["parity", "list", *(word for word in words if Path(word).exists())])
        print_text(f"No cell is selected. What is declared: {named}", error=True)
    elif code == _INVALID_OPTIONS:
        for said in filter(None, map(_said_of_option, words)):
            print_text(said, error=True)
    _end(_run_of(process, folder, _runs_in(folder) - before), code, report=report, profile=profile, as_json=as_json)


def _said_of_option(word: str) -> str:
    """What is said of a word of the command line that may be the option that pytest does not know."""
    from onnx_parity.harness.cli import COMMANDS, load_command

    name = word.partition("=")[0]
    if not name.startswith("--") or name[2:] in OPTIONS:
        return ""
    if near := like_option(word):
        return near
    have = [command for command in COMMANDS if any(name in each.opts for each in load_command(command).params)]
    if have and "run" not in have:
        return f"`parity run` has no option {name}: it is one of {' and '.join(f'`parity {each}`' for each in have)}."
    return ""


def _refuse_missing(words: Sequence[str]) -> None:
    """Refuse what is given as a file or folder and is none. Behind an option, a word may be the option's value."""
    for before, word in itertools.pairwise(["", *words]):
        file = word.partition("::")[0]
        if not before.startswith("-") and not file.startswith("-") and not Path(file).exists():
            part = max(re.split(r"\W+", word), key=len)
            how = f" Cells are chosen by a part of their ids: parity run -k {part}" if not Path(file).suffix else ""
            refuse(f"There is no file or folder {file}.{how}")


def _refuse_elsewhere() -> None:
    """Where no declarations are named, those of the project are run, which pytest does in its folder alone."""
    project = defaults.project()
    if not project.declarations:
        refuse(defaults.no_declarations())
    if project.root != Path.cwd():
        there = shlex.quote(str(project.root))
        refuse(f"The declarations of this project are run in its folder, or by their names: cd {there}")


def _refuse_other_options(context: typer.Context, option: str, allowed: tuple[str, ...], why: str) -> None:
    """Refuse all options but these, because an option is about a run that has options already."""
    names = {str(each.name): each.opts[0] for each in context.command.params}
    given = [names[name] for name in names if name not in (option, *allowed, "paths") and _is_given(context, name)]
    # Typer puts options that it does not know among the paths.
    given += [*context.args, *map(str, context.params["paths"] or ())]
    if given:
        *first, last = (names[name] if name != "report" else "--report, --no-report" for name in allowed)
        others = f"{', '.join(first)} and {last}"
        refuse(f"--{option} {why}: remove {shlex.join(given)}. Only {others} may be given with it.")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _workers(number: str, on: str | None) -> list[str]:
    """The options of pytest that say where cells are run, and in how many processes."""
    if on is None:
        return ["-n", number]
    if on == HERE:
        return ["-n", number, f"{prefix_option('on')}={on}"]
    if number == "0":
        refuse(f"-n 0 runs cells without workers, and --on {on} needs at least one.")
    options = [f"{prefix_option('on')}={on}", f"{prefix_option('workers')}={number if number.isdecimal() else 0}"]
    return ["-n", "0", *options]


def _resume(run: Path, workers: str, on: str | None, *, quiet: bool) -> tuple[int, Path]:
    try:
        given = read_info(run).argv
        complete = _is_complete(run)
    except RunStoreError as error:
        refuse(str(error))
    folder = run.resolve()
    if complete:
        print_text(f"{run} has all its cells: there is nothing to resume.", error=quiet)
        return int(any(record.status in WRONG for record in read_records(run))), folder
    command = [sys.executable, "-m", "pytest", *_with_joined_paths(given)]
    if on is None:
        # Where it began.
        on = next((word.partition("=")[2] for word in given if word.startswith(f"{prefix_option('on')}=")), None)
    command += [*_workers(workers, on), f"{prefix_option('resume')}={folder}"]
    code, _ = _pytest(command, quiet=quiet)
    return code, folder


def _is_complete(run: Path) -> bool:
    """Whether a run has nothing left to run. Cells that crashed are run again."""
    end = read_end(run)
    if end is None or not end.whole:
        return False
    records = read_lines(run)
    return not records.damage and not any(record.status is Status.CRASHED for record in records)


def _with_joined_paths(words: Sequence[str]) -> Iterator[str]:
    """The words of a command line, with our options by their prefixed names and joined to their paths: `--runs=PATH`.

    pytest looks for its configuration file beside every word that is a path. If it finds another project's, it collects
    no cells.
    """
    rest = map(with_prefix, words)
    for word in rest:
        yield f"{word}={next(rest, '')}" if word in _OPTIONS_WITH_PATHS else word


def _not_served(process: int) -> None:
    """What is done when a run begins whose report is written at its end."""


@contextmanager
def _served(runs: Path) -> Iterator[Callable[[int], None]]:
    """A context in which the report of a run is served by a process of its own, from when the run has a folder. It
    gives the function that is to be called with the number of the run's process."""
    ended = threading.Event()
    servers: list[subprocess.Popen[bytes]] = []

    def wait_for(process: int) -> None:
        while not ended.wait(_LOOK):
            run = _run_of(process, runs, _runs_in(runs))
            if run is not None and any(file.stat().st_size for file in record_files(run)):
                # The cells come first. What it says on standard error is for those who began it themselves.
                command = ["nice", "-n", "5", sys.executable, "-m", "onnx_parity", "report", str(run), "--serve"]
                command += ["--port", "0"]
                servers.append(subprocess.Popen(command, stdout=sys.stderr, stderr=subprocess.DEVNULL))
                return

    def begin(process: int) -> None:
        threading.Thread(target=wait_for, args=(process,), daemon=True).start()

    try:
        yield begin
    finally:
        ended.set()
        for server in servers:
            server.send_signal(signal.SIGINT)
            server.wait()


def _pytest(command: list[str], *, quiet: bool, begun: Callable[[int], object] = _not_served) -> tuple[int, int]:
    """The exit code for a pytest, and the number of its process."""
    print_text(f"$ pytest {shlex.join(command[3:])}", error=quiet)
    sys.stdout.flush()
    code, process = exit_code_of(command, sys.stderr if quiet else None, begun)
    if code < 0:
        # This process was not asked to stop, so the system has killed pytest, as it does when memory runs out.
        name = signal.Signals(-code).name
        print_text(f"pytest was killed by {name}. `parity run --resume` runs the cells that are missing.", error=True)
        return _PYTEST_FAILED, process
    return code, process


def _similar_names(keyword: str, places: Sequence[Path]) -> str:
    """What to write instead of a keyword that no cell matches: declarations and entries with names like its words."""
    from onnx_parity.harness.cases.declarations import declared_under
    from onnx_parity.harness.opinfo import OpInfoDeclaration

    names: set[str] = set()
    for name, declaration in (each for place in places if place.exists() for each in declared_under(place)):
        names.add(name)
        if isinstance(declaration, OpInfoDeclaration):
            # A case of torch's databases has the entry in its name: opinfo.clamp.
            names.update(f"{name}.{entry}" for entry in declaration.entry_names)
    words = re.findall(r"[a-z_][\w.]*", keyword)
    near = dict.fromkeys(name for word in words for name in difflib.get_close_matches(word, sorted(names)))
    return f"Similar names: {', '.join(near)}." if near else "`parity list --cells` shows all ids."


def _end(run: Path | None, code: int, *, report: bool, profile: bool, as_json: bool) -> NoReturn:
    """Write the report, print the result and end the command. `run` is None if no cell was selected."""
    code = _USED_WRONGLY if code in (_INVALID_OPTIONS, _NOTHING_SELECTED) else code
    # Where pytest failed there may be no room for a report either.
    writes = report and run is not None and code != _PYTEST_FAILED
    index = publish_report(run, only_wrong=True) if writes and run is not None else None
    if index is not None and not as_json:
        print_text(f"report: {index}")
    records = read_records(run) if run is not None else None
    if records is not None and not as_json and len({record.exporter for record in records}) > 1:
        from onnx_parity.harness.results.exporters_compared import compare

        show(compare(records), Console(), every=False)
    found = profile_of(read_info(run), records) if profile and run is not None and records is not None else None
    if found is not None and not as_json:
        for line in describe_profile(found):
            print_text(line)
    if as_json:
        profiled = {"profile": {"parts": found.parts(), "workers": found.workers}} if found is not None else {}
        ended = {"run": run and str(run), "report": index and str(index), "exit_code": code}
        print_json(ended | profiled | _result(run, records))
    raise typer.Exit(code)


def _result(run: Path | None, records: Records | None) -> dict[str, object]:
    """The part of the JSON about cells: whether the run has all, how many ended how, and the causes of failures."""
    if run is None or records is None:
        return {"whole": False, "shortcomings": [], "cells": 0, "counts": {}, "absent": {}, "causes": []}
    lacks = shortcomings_of(run, records.damage)
    causes = causes_of(record for record in records if record.status in WRONG)
    return {
        "whole": not lacks,
        "shortcomings": lacks,
        "cells": len(records),
        "counts": Counter(record.status for record in records),
        "absent": Counter(record.reason for record in records if record.status is Status.ABSENT),
        "causes": [cause.summary for cause in causes],
    }


def _runs_in(runs: Path) -> set[str]:
    return {name for name in os.listdir(runs) if name != "last"} if runs.is_dir() else set()


def _run_of(process: int, runs: Path, new: set[str]) -> Path | None:
    """The new run that a pytest has written: other runs may have begun in the same folder meanwhile."""
    found = sorted(name for name in new if name.endswith(f"-{process}"))
    return runs.resolve() / found[-1] if found else None
