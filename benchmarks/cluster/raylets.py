"""Clusters of several nodes on this machine, commands that use them, and the comparison of what they recorded.

Each node is a raylet of its own, as on a machine of its own.
"""

from __future__ import annotations

import os
import random
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.same_records import differences
from onnx_parity.harness.record import Record
from onnx_parity.harness.store import read_lines, record_files

#: Seconds in which nodes start, and in which a run ends, on a machine that has much else to do.
_STARTS, _ENDS = 120.0, 3600.0
#: How often a node is started anew if it did not start.
_TRIES = 5
#: The object store of a node.
_STORE = 80 << 20
#: How Ray's processes are started here. They are given time to start, and the priority that other processes have.
_SETTINGS = {
    "RAY_worker_niceness": "0",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_agent_register_timeout_ms": "600000",
    "RAY_gcs_server_request_timeout_seconds": "300",
    "RAY_gcs_rpc_server_connect_timeout_s": "60",
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "600",
}
_PORTS = ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port", "dashboard_agent_listen_port")
CLONE = Path(__file__).parents[2]
PARITY = "from onnx_parity.harness.cli import app; app()"


@dataclass
class Cluster:
    """A head without processors, and nodes with one or more, each a raylet on this machine."""

    ray: Any
    processors: int
    nodes: list[Any] = field(default_factory=list)
    #: The ids of the nodes that were killed.
    killed: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return str(self.ray.address)

    def add(self) -> None:
        """Add a node, and do not wait until it is ready: who uses the cluster does."""
        for left in reversed(range(_TRIES)):
            try:
                with _patient():
                    node = self.ray.add_node(
                        wait=False, num_cpus=self.processors, object_store_memory=_STORE, **_of_a_machine()
                    )
            except Exception as error:
                # A raylet ends if another process of its node takes more than 15 s to start.
                if "timed out during startup" not in str(error) or not left:
                    raise
            else:
                self.nodes.append(node)
                return

    def kill(self, draw: random.Random) -> None:
        """Kill a node's raylet as a machine dies: everything on it with it, without a word."""
        node = self.nodes.pop(draw.randrange(len(self.nodes)))
        self.killed.append(node.node_id)
        self.ray.remove_node(node, allow_graceful=False)


def _of_a_machine() -> dict[str, Any]:
    """What each machine has for itself: a folder for the files of projects, of which a node that joins later makes the
    content anew; and ports for the processes beside a raylet. It waits 15 s for them to choose some, and ends if they
    have not.
    """
    with ExitStack() as stack:
        found: dict[str, Any] = {"runtime_env_dir_name": f"runtime_resources-{secrets.token_hex(4)}"}
        for name in _PORTS:
            free = stack.enter_context(socket.socket())
            free.bind(("127.0.0.1", 0))
            found[name] = free.getsockname()[1]
        return found


@contextmanager
def _patient() -> Iterator[None]:
    """A context in which a raylet may take long to start. Ray itself gives it 30 s."""
    from ray._private import services

    asked = services.get_node

    def waiting(*args: Any) -> Any:
        until = time.monotonic() + _STARTS
        while True:
            try:
                return asked(*args)
            except RuntimeError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)

    with mock.patch.object(services, "get_node", waiting):
        yield


@contextmanager
def cluster_of(nodes: int, processors: int = 1, *, dashboard: bool = False) -> Iterator[Cluster]:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    from ray.cluster_utils import Cluster as Simulated  # It reads the settings when it is imported.

    simulated = Simulated()
    with _patient():
        simulated.add_node(
            wait=False, num_cpus=0, object_store_memory=_STORE, include_dashboard=dashboard, **_of_a_machine()
        )
    cluster = Cluster(simulated, processors)
    try:
        for _ in range(nodes):
            cluster.add()
        simulated.wait_for_nodes(_STARTS)
        yield cluster
    finally:
        with suppress(Exception):  # What a scenario has killed cannot be ended in order.
            simulated.shutdown()


@dataclass
class Run:
    """A `parity run` that has been started, in a process group of its own."""

    process: subprocess.Popen[str]
    project: Path
    log: Path
    #: The runs that were there before.
    before: frozenset[Path]

    @property
    def folder(self) -> Path | None:
        """The folder of this run; None as long as no cell has been run."""
        found = _runs_of(self.project) - self.before
        return max(found, default=None)

    @property
    def cells(self) -> int:
        """How many cells have a record."""
        return lines_of(self.folder) if self.folder is not None else 0

    def wait_for(self, cells: int, seconds: float = _ENDS) -> None:
        """Wait until so many cells have a record."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.process.poll() is None:
            if self.cells >= cells:
                return
            time.sleep(0.05)

    def end(self, seconds: float = _ENDS) -> int:
        return self.process.wait(seconds)

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")


def start(project: Path, *options: str, command: str = "run", folder: Path | None = None) -> Run:
    """Start a command in the folder of a project; if another is given, there, with runs in the project's."""
    options = (*options, "--runs", str(project / "runs")) if folder is not None else options
    before = _runs_of(project)
    log = project / f"log-{time.monotonic_ns()}.txt"
    environment = {**os.environ, "PYTHONPATH": str(CLONE)}
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", PARITY, command, *(["--no-report"] if command == "run" else []), *options],
            cwd=folder or project, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True, process_group=0,
        )  # fmt: skip
    return Run(process, project, log, before)


def _runs_of(project: Path) -> frozenset[Path]:
    return frozenset(path.resolve() for path in (project / "runs").glob("2*"))


def local_records(project: Path, workers: int) -> dict[str, Record]:
    """The records of a run without a cluster, which the others are compared with."""
    local = start(project, "-n", str(workers))
    local.end()
    assert local.folder is not None, local.text
    return {record.cell: record for record in read_lines(local.folder)}


def lines_of(run: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in record_files(run))


def compared(run: Path, wanted: dict[str, Record]) -> list[str]:
    """What is wrong with the records of a run; nothing if they are those of the local run."""
    records = read_lines(run)
    wrong = [records.damage] if records.damage else []
    found = {record.cell: record for record in records}
    if lost := sorted(wanted.keys() - found.keys()):
        wrong.append(f"{len(lost)} cells lost, such as {lost[0]}")
    if more := sorted(found.keys() - wanted.keys()):
        wrong.append(f"{len(more)} cells too many, such as {more[0]}")
    crashed_once = sum(record.status == "crashed" for record in found.values())
    if (twice := lines_of(run) - len(found)) > crashed_once:
        wrong.append(f"{twice} records too many")
    return wrong + [
        f"{cell} differs in {field}: {there}, locally {here}"
        for cell, (field, there, here) in differences(found, wanted).items()
    ]
