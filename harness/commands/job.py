"""Sending a run to a cluster, where it goes on when the terminal is closed, and following it: parts of `parity run`."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import typer

from onnx_parity.harness.cluster.connection import ClusterError
from onnx_parity.harness.cluster.mirroring import Copy, CopyError
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.report import publish_report
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.pytest_plugin.options import prefix_option

#: What `--on` says for the address that RAY_API_SERVER_ADDRESS has, and `--follow` for the run that was sent last.
JOBS, LAST = "jobs", "last"
#: Options that name something of this machine.
_NOT_THERE = ("--since", "--durations-of")


def is_jobs_address(on: str | None) -> bool:
    """Whether `--on` names a cluster by the address of Ray's Jobs API."""
    return on is not None and (on == JOBS or on.startswith(("http://", "https://")))


def send(on: str, arguments: list[str], *, keep: str, python: str, as_json: bool) -> NoReturn:
    """Send a run with these arguments to a cluster, and end the command."""
    from onnx_parity.harness.cluster.jobs import Jobs

    names = {word.partition("=")[0].replace(prefix_option(""), "--") for word in arguments}
    if wrong := sorted(names.intersection(_NOT_THERE)):
        refuse(f"{wrong[0]} is for runs of this machine: leave it out.")
    project = defaults.project()
    if not project.declarations and not any(Path(word).exists() for word in arguments):
        refuse(defaults.no_declarations())
    try:
        jobs = Jobs.at(None if on == JOBS else on)
        job = jobs.submit(project.root, arguments, keep=keep, python=python)
    except ClusterError as error:
        refuse(str(error))
    if as_json:
        print_json({"job": job, "address": jobs.address})
    else:
        print_text(f"{job} is sent. Follow it: parity run --follow {job} --on {jobs.address}")
    raise typer.Exit


def follow(job: str, on: str | None, runs: Path | None, *, report: bool, as_json: bool) -> NoReturn:
    """Follow a run that was sent to a cluster: its folder fills here, as that of a local run. Then end the command."""
    from onnx_parity.harness.cluster.jobs import Jobs

    folder = runs or defaults.runs()
    folder.mkdir(parents=True, exist_ok=True)
    copy = Copy(folder)
    try:
        jobs = Jobs.at(None if on == JOBS else on)
        job = jobs.newest() if job == LAST else job
    except ClusterError as error:
        refuse(str(error))
    try:
        print_text(f"following {job}", error=as_json)
        code = jobs.follow(job, copy, lambda line: print_text(line, error=as_json))
    except KeyboardInterrupt:
        refuse(f"{job} goes on. Follow it again: parity run --follow {job} --on {jobs.address}")
    except (ClusterError, CopyError) as error:
        refuse(str(error))
    run = copy.last if copy.runs else None
    index = publish_report(run) if report and run is not None else None
    if as_json:
        print_json({"job": job, "run": run and str(run), "report": index and str(index), "exit_code": code})
    else:
        print_text(f"run: {run}" if run is not None else "no cell was run")
        if index is not None:
            print_text(f"report: {index}")
    raise typer.Exit(code)
