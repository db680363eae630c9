"""Runs that are sent to a cluster by Ray's Jobs API, over HTTP: they go on when the terminal is closed.

The head of the cluster runs `on_head.py`. The log of the job is all that is needed to follow it: it has the output of
the run, and lines that carry its folder home.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from onnx_parity.harness.cluster.connection import INSTALL, ClusterError, answers
from onnx_parity.harness.cluster.facts import facts
from onnx_parity.harness.cluster.mirroring import MARK, Copy
from onnx_parity.harness.cluster.on_head import SENDER, Sender
from onnx_parity.harness.cluster.travelling import TooLargeError, archive_of
from onnx_parity.harness.one_line import one_line

#: The environment variable that names the cluster, as it does for `ray job`.
ADDRESS = "RAY_API_SERVER_ADDRESS"
#: The names of our jobs begin with this.
_PREFIX = "parity-"
_MODULE = "onnx_parity.harness.cluster.on_head"
#: Seconds in which a cluster has to answer, after which a broken connection is tried again, and how often it is if
#: nothing more is shown.
_ANSWERS, _PAUSE, _TRIES = 10.0, 2.0, 5
#: Seconds in which a job that is stopped ends in order.
_IN_ORDER = "60"


class _BrokenError(Exception):
    """The connection to a job's log is broken."""


class Jobs:
    """The jobs of a cluster."""

    def __init__(self, address: str, client: Any) -> None:
        self.address = address
        self._client = client

    @classmethod
    def at(cls, given: str | None) -> Self:
        """The jobs of the cluster at an address, or of the one that the environment names."""
        address = given or os.environ.get(ADDRESS, "")
        if find_spec("ray") is None:
            raise ClusterError(f"sending a run to a cluster needs Ray, which is not installed here: {INSTALL}")
        place = _place_of(address)
        if not address:
            raise ClusterError(f"no cluster is named. Give --on http://10.0.0.5:8265, or set {ADDRESS}.")
        if place is None:
            raise ClusterError(
                f"--on {address} is no address of Ray's Jobs API: write that of the head's dashboard, such as "
                f"http://10.0.0.5:8265, or set {ADDRESS}."
            )
        if not answers(place, _ANSWERS):
            raise ClusterError(f"nothing answers at {address}, where --on or {ADDRESS} says that a Ray cluster is.")
        from ray.job_submission import JobSubmissionClient

        try:
            return cls(address, JobSubmissionClient(address))
        except (ConnectionError, RuntimeError, OSError) as error:
            raise ClusterError(f"{address} does not answer as Ray's Jobs API does: {one_line(str(error))}") from error

    def submit(self, root: Path, arguments: list[str], *, keep: str, python: str) -> str:
        """Send the files of a project and run its cells; return the name of the job."""
        job = f"{_PREFIX}{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        here = Path.cwd()
        folder = os.path.relpath(here, root) if here.is_relative_to(root) else "."
        sender = msgspec.msgpack.encode(Sender(job, facts({}), folder, keep))
        command = shlex.join([python, "-m", _MODULE, *arguments])
        try:
            with archive_of(root, {SENDER: sender}) as archive:
                self._client.submit_job(
                    entrypoint=command,
                    submission_id=job,
                    runtime_env={"working_dir": str(archive), "env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": _IN_ORDER}},
                )
        except (TooLargeError, ConnectionError, RuntimeError, OSError, ValueError) as error:
            raise ClusterError(f"the run could not be sent to {self.address}: {one_line(str(error))}") from error
        return job

    def newest(self) -> str:
        """The job that `parity run` has sent last."""
        ours = [each for each in self._list() if (each.submission_id or "").startswith(_PREFIX)]
        if not ours:
            raise ClusterError(f"{self.address} knows no job that `parity run` has sent.")
        return str(max(ours, key=lambda each: each.start_time or 0).submission_id)

    def follow(self, job: str, copy: Copy, show: Callable[[str], None]) -> int:
        """Copy the run of a job and show its output until it ends; return the exit code of its `parity run`."""
        self._info(job)
        shown = in_vain = 0
        while True:
            number, before = 0, shown
            broken: _BrokenError | None = None

            def take(line: str) -> None:
                nonlocal number, shown
                if line.startswith(MARK):
                    copy.take(line)
                    return
                number += 1
                # A connection that broke begins again with the first line.
                if number > shown:
                    shown = number
                    show(line)

            try:
                rest = asyncio.run(self._read(job, take))
                info = self._info(job)
                if info.status.is_terminal():
                    _refuse_cut(rest)
                    if rest:
                        take(rest)
                    return self._code(job, info)
            except _BrokenError as error:
                broken = error
            in_vain = in_vain + 1 if shown == before else 1
            if in_vain == _TRIES:
                raise self._lost(job, copy, broken) from broken
            time.sleep(_PAUSE)

    async def _read(self, job: str, take: Callable[[str], None]) -> str:
        """Hand over each whole line of the job's log. Return what comes after the last of them: the connection may
        have ended within a line.
        """
        begun = ""
        log = self._client.tail_job_logs(job)
        while True:
            try:
                text = await anext(log, None)
            except _errors_of_connections() as error:
                raise _BrokenError(one_line(str(error))) from error
            if text is None:
                return begun
            *lines, begun = (begun + text).split("\n")
            for line in lines:
                take(line)

    def _code(self, job: str, info: Any) -> int:
        if info.driver_exit_code is None:
            raise ClusterError(f"the job {job} is {info.status.value}: {one_line(info.message or '')}")
        return int(info.driver_exit_code)

    def _lost(self, job: str, copy: Copy, error: Exception | None) -> ClusterError:
        words = f": {error}" if error is not None else ""
        folder = f" What has arrived is in {copy.last}." if copy.runs else ""
        return ClusterError(
            f"the cluster at {self.address}, which runs {job}, does not answer any more{words}.{folder} Once it does, "
            f"follow the run again: parity run --follow {job} --on {self.address}"
        )

    def _info(self, job: str) -> Any:
        try:
            return self._client.get_job_info(job)
        except (RuntimeError, OSError) as error:
            raise ClusterError(f"{self.address} knows no job {job}: {one_line(str(error))}") from error

    def _list(self) -> list[Any]:
        try:
            return list(self._client.list_jobs())
        except (RuntimeError, OSError) as error:
            raise ClusterError(f"{self.address} does not list its jobs: {one_line(str(error))}") from error


def _refuse_cut(rest: str) -> None:
    """Raise an error if a log ends within a line that carries a piece of a file: it has more than has arrived."""
    if rest and (rest.startswith(MARK) or MARK.startswith(rest)):
        raise _BrokenError("its log ends within a line")


def _place_of(address: str) -> tuple[str, int] | None:
    """The host and port of an address; None if it is none of HTTP."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    return parts.hostname, port or (443 if parts.scheme == "https" else 80)


def _errors_of_connections() -> tuple[type[Exception], ...]:
    if find_spec("aiohttp") is None:
        return RuntimeError, OSError
    from aiohttp import ClientError

    return RuntimeError, OSError, ClientError
