"""`parity submit` and `parity attach`: a run on a cluster that goes on when the terminal is closed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnx_parity.harness.cluster.connection import ClusterError
from onnx_parity.harness.cluster.mirroring import Copy, CopyError
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.report import written_report
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.pytest_plugin.options import prefixed

_On = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="The address of Ray's Jobs API, which is that of the head's dashboard: http://10.0.0.5:8265.",
        show_default="RAY_API_SERVER_ADDRESS",
    ),
]
#: Options of `parity run` that name something of this machine.
_NOT_THERE = ("--resume", "--runs", "--on", "--since", "--durations-of", "--json", "--report")


def submit(
    context: typer.Context,
    on: _On = None,
    keep: Annotated[
        str,
        typer.Option(help="A folder of the cluster in which the run is kept too, such as one on a shared disk."),
    ] = "",
    python: Annotated[str, typer.Option(help="The Python of the cluster that has onnx-parity.")] = "python",
    as_json: Annotated[bool, typer.Option("--json", help="Print the name of the job as JSON.")] = False,
) -> None:
    """Send a run to a Ray cluster, and return at once. The run goes on when this terminal is closed.

    It takes what `parity run` takes. The files of the project are sent, but no packages. `parity attach` follows the
    run, and fills its folder here.

    Exit codes: 0 if the run was sent; 2 if not.

    Examples:

        parity submit --on http://10.0.0.5:8265 --tier full

        parity submit op_cases/activation.py -k "elu and opset9" --keep /mnt/shared/runs
    """
    from onnx_parity.harness.cluster.jobs import Jobs

    names = {word.partition("=")[0].replace(prefixed(""), "--") for word in context.args}
    if wrong := sorted(names.intersection(_NOT_THERE)):
        refuse(f"{wrong[0]} is for runs of this machine: leave it out, or give it to `parity attach` if that has it.")
    project = defaults.project()
    if not project.declarations and not any(Path(word).exists() for word in context.args):
        refuse(defaults.no_declarations())
    try:
        jobs = Jobs.at(on)
        job = jobs.submit(project.root, context.args, keep=keep, python=python)
    except ClusterError as error:
        refuse(str(error))
    if as_json:
        print_json({"job": job, "address": jobs.address})
    else:
        print_text(f"{job} is sent. Follow it: parity attach {job} --on {jobs.address}")


def attach(
    job: Annotated[str, typer.Argument(help="The name of the job.", show_default="the last that was sent")] = "",
    on: _On = None,
    runs: Annotated[
        Path | None, typer.Option(help="The folder in which the run is created.", show_default="runs")
    ] = None,
    report: Annotated[bool, typer.Option(help="Write the HTML report at the end.")] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON; all other output goes to standard error.")
    ] = False,
) -> None:
    """Follow a run that `parity submit` has sent. Its folder fills here, as that of a local run.

    Ctrl-C ends only this command: the run goes on, and `parity attach` follows it again, from the beginning. `ray job
    stop` stops the run.

    Exit codes: those of the run, as `parity run` has them; 2 if it cannot be followed.

    Examples:

        parity attach --on http://10.0.0.5:8265

        parity attach parity-20260131-101500-3f2a --on http://10.0.0.5:8265
    """
    from onnx_parity.harness.cluster.jobs import Jobs

    folder = runs or defaults.runs()
    folder.mkdir(parents=True, exist_ok=True)
    copy = Copy(folder)
    try:
        jobs = Jobs.at(on)
        job = job or jobs.newest()
    except ClusterError as error:
        refuse(str(error))
    try:
        print_text(f"following {job}", error=as_json)
        code = jobs.follow(job, copy, lambda line: print_text(line, error=as_json))
    except KeyboardInterrupt:
        refuse(f"{job} goes on. Follow it again: parity attach {job} --on {jobs.address}")
    except (ClusterError, CopyError) as error:
        refuse(str(error))
    run = copy.last if copy.runs else None
    index = written_report(run) if report and run is not None else None
    if as_json:
        print_json({"job": job, "run": run and str(run), "report": index and str(index), "exit_code": code})
    else:
        print_text(f"run: {run}" if run is not None else "no cell was run")
        if index is not None:
            print_text(f"report: {index}")
    raise typer.Exit(code)
