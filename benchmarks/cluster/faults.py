"""Runs cells on a Ray cluster of several nodes on this machine, breaks it, and compares the records with a local run.

    pip install 'onnx-parity[ray]'
    python -m benchmarks.cluster.faults --kills 30 --resumes 10

Each node is a raylet of its own, as on a machine of its own. Nodes and drivers are killed with SIGKILL at random
moments. In every scenario each cell has to have exactly one record, with the outcome that it has in a local run; only
times, memory and the names of workers may differ.
"""

from __future__ import annotations

import math
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from benchmarks.cluster.raylets import (
    CLONE,
    PARITY,
    Cluster,
    cluster_of,
    compared,
    lines_of,
    local_records,
    start,
)
from benchmarks.options import search
from onnx_parity.harness.cluster.messages import NodeReport
from onnx_parity.harness.pytest_plugin.on_cluster import NODES_FILE
from onnx_parity.harness.record import Record
from onnx_parity.harness.store import read_lines

#: Declarations with crashes, a failure and a refusal: there is no `NonZero` before opset 9.
_CASES = """
import ctypes, os, time
import torch
import torch.nn.functional as F
import onnx_parity
from onnx_parity.harness.case import floats, op

def crashes(x):
    ctypes.string_at(0)

def takes_a_while(x, number):
    time.sleep(0.4)
    return F.elu(x) + number

def leaves(x):
    os._exit(3)

def differs(x):
    return x * 2 if onnx_parity.is_in_onnx_export() else x

crash = op(crashes, floats(2, 3))
left = op(leaves, floats(2, 3))
elu = op(F.elu, floats(2, 3), alpha=[1.0, 0.5], dynamic={{"x": {{0: "batch"}}}})
relu = op(F.relu, floats(2, 3))
refused = op(torch.nonzero, floats(3, 3))
wrong = op(differs, floats(2, 3))
slow = op(takes_a_while, floats(2, 3), number=list(range({slow})))
"""


@dataclass(frozen=True)
class Played:
    """A scenario that has been played."""

    scenario: str
    wrong: list[str]
    #: How often it broke the cluster.
    times: int = 1
    note: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Scenario:
    name: str
    #: Plays it, with moments that are drawn and at most so many kills.
    play: Callable[[random.Random, int], Played]
    #: How often it has to break the cluster.
    times: int = 1
    #: Whether it has a cluster of its own.
    apart: bool = False


class Tally:
    """What has been played, in this call and in those before it that wrote into the same file."""

    def __init__(self, path: Path | None, until: float, seed: int) -> None:
        self._path = path
        self._until = until
        self._seed = seed
        self.played: list[Played] = []
        if path is not None and path.exists():
            self.played = [msgspec.json.decode(line, type=Played) for line in path.read_bytes().splitlines()]

    @property
    def wrong(self) -> list[str]:
        return [f"{each.scenario}: {words}" for each in self.played for words in each.wrong]

    def left(self, scenario: Scenario) -> int:
        """How often the scenario has still to break a cluster."""
        return scenario.times - sum(each.times for each in self.played if each.scenario == scenario.name)

    def play(self, scenario: Scenario) -> bool:
        """Play a scenario as often as it has to be; whether there was time for that."""
        while (left := self.left(scenario)) > 0:
            began = time.monotonic()
            if began > self._until:
                return False
            number = sum(each.scenario == scenario.name for each in self.played)
            played = scenario.play(random.Random(f"{self._seed} {scenario.name} {number}"), left)
            self._add(replace(played, seconds=time.monotonic() - began))
            self._show(scenario, scenario.times - self.left(scenario))
        return True

    def _add(self, played: Played) -> None:
        self.played.append(played)
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(played) + b"\n")

    def _show(self, scenario: Scenario, times: int) -> None:
        played = self.played[-1]
        name = scenario.name + (f", {times} of {scenario.times}" if scenario.times > 1 else "")
        state = "ok" if not played.wrong else f"WRONG: {'; '.join(played.wrong[:3])}"
        typer.echo(f"{name:<44} {played.seconds:6.0f} s  {state}{f'  {played.note}' if played.note else ''}")


def make_project(root: Path, slow: int) -> Path:
    """Write a project of which so many cases take a while, each at one opset."""
    (root / "cases.py").write_text(_CASES.format(slow=slow))
    settings = 'declarations = ["cases.py"]\ndevices = ["cpu"]\ndtypes = ["float32"]\nopsets = "8"\n'
    (root / "pyproject.toml").write_text(f"[tool.parity]\n{settings}")
    return root


def undisturbed(project: Path, cluster: Cluster, wanted: dict[str, Record]) -> list[str]:
    run = start(project, "--on", cluster.address)
    run.end()
    assert run.folder is not None, run.text
    bundles = [record.bundle for record in read_lines(run.folder) if record.bundle]
    lost = [bundle for bundle in bundles if not (run.folder / bundle / "bundle.json").exists()]
    return compared(run.folder, wanted) + [f"{bundle} was not brought home" for bundle in lost]


def node_losses(
    project: Path, cluster: Cluster, wanted: dict[str, Record], draw: random.Random, most: int
) -> tuple[list[str], int]:
    """Kill a node again and again while one run goes on, each time with another one in its place. What was wrong, and
    how often a node was killed.
    """
    run = start(project, "--on", cluster.address)
    killed = 0
    while killed < most:
        run.wait_for(draw.randrange(run.cells + 1, max(run.cells + 2, len(wanted))))
        time.sleep(draw.random())
        if run.process.poll() is not None or run.cells >= len(wanted):
            break
        cluster.kill(draw)
        killed += 1
        cluster.add()
    run.end()
    assert run.folder is not None, run.text
    wrong = compared(run.folder, wanted)
    reports = [msgspec.json.decode(line, type=NodeReport) for line in (run.folder / NODES_FILE).open("rb")]
    lost = {report.id for report in reports if report.lost}
    if run.text.count("is lost; its cells") != len(lost):
        wrong.append("a line for each lost node was not told")
    # A node that was killed in the last moment, when every cell had a record, is lost for the next run.
    if untold := {report.id for report in reports}.intersection(cluster.killed[:-1]) - lost:
        wrong.append(f"{len(untold)} nodes were killed and are not lost")
    if more := lost.difference(cluster.killed):
        wrong.append(f"{len(more)} nodes are lost and were not killed")
    return wrong, killed


def driver_loss(
    project: Path, cluster: Cluster, wanted: dict[str, Record], draw: random.Random
) -> tuple[list[str], str]:
    """Kill one of the processes of the driver, and resume the run. What was wrong, and what was killed."""
    run = start(project, "--on", cluster.address)
    run.wait_for(draw.randrange(1, len(wanted) * 3 // 4))
    assert run.folder is not None, run.text
    own = int(run.folder.name.rpartition("-")[2])
    victims = {"parity run": run.process.pid, "its pytest": own, "the process that drives Ray": _coordinator_of(own)}
    victim = draw.choice(sorted(victims))
    os.kill(victims[victim], signal.SIGKILL)
    run.process.wait()
    _wait_for_the_end(run.folder)
    before = lines_of(run.folder)
    again = start(project, "--resume", str(run.folder))
    code = again.end()
    # There are crashes among the cells.
    wrong = [] if code == 1 else [f"exit code {code}: {again.text[-300:]}"]
    wrong += [] if before < lines_of(run.folder) else ["nothing was left to be resumed"]
    return compared(run.folder, wanted) + wrong, victim


def _coordinator_of(process: int) -> int:
    """The process that drives Ray for a pytest."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return next(int(each) for each in children if b"cluster.coordinator" in Path(f"/proc/{each}/cmdline").read_bytes())


def _wait_for_the_end(run: Path) -> None:
    """The pytest of a `parity run` that was killed ends in order: until it has, its run must not be resumed."""
    before = -1
    while before != (now := lines_of(run)) or _pytest_of(run):
        before = now
        time.sleep(0.5)


def _pytest_of(run: Path) -> bool:
    """Whether the process whose number the run has is still there."""
    number = run.name.rpartition("-")[2]
    return Path(f"/proc/{number}/stat").exists() and " Z " not in Path(f"/proc/{number}/stat").read_text()


def lost_head(project: Path, wanted: dict[str, Record], draw: random.Random) -> list[str]:
    with cluster_of(2) as cluster:
        run = start(project, "--on", cluster.address)
        run.wait_for(draw.randrange(1, len(wanted) // 2))
        cluster.ray.head_node.kill_gcs_server(check_alive=False)
        code = run.end()
    assert run.folder is not None, run.text
    wrong = [] if "does not answer any more" in run.text else [f"the lost head was not told: {run.text[-300:]}"]
    wrong += [] if code == 2 else [f"exit code {code}"]
    again = start(project, "--resume", str(run.folder), "--on", "here", "-n", "2")
    again.end()
    return wrong + compared(run.folder, wanted)


def full_store(project: Path, cluster: Cluster, wanted: dict[str, Record]) -> list[str]:
    """Another job fills the object store of every node, and holds what it has put there."""
    holder = subprocess.Popen([sys.executable, "-c", _FILL, cluster.address], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline().startswith("full"), "the object store could not be filled"
        run = start(project, "--on", cluster.address)
        run.end()
        assert run.folder is not None, run.text
        return compared(run.folder, wanted)
    finally:
        holder.kill()
        holder.wait()


_FILL = """
import sys, time
import numpy as np, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")

@ray.remote(num_cpus=0)
class Holder:
    def fill(self):
        self.held = [ray.put(np.zeros(7 << 20, np.uint8)) for _ in range(10)]

from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
holders = [Holder.options(scheduling_strategy=On(node, soft=False)).remote() for node in nodes]
ray.get([holder.fill.remote() for holder in holders])
print("full", flush=True)
time.sleep(3600)
"""


def unreachable(project: Path) -> list[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    run = start(project, "--on", address)
    code = run.end()
    told = f"nothing answers at {address}" in run.text
    return [] if told and code == 2 else [f"exit code {code}: {run.text[-300:]}"]


def other_versions(project: Path, cluster: Cluster) -> list[str]:
    """A node on which a file of the harness differs is refused; here all nodes are, because the driver's differs."""
    copy = project / "other"
    copy.mkdir(exist_ok=True)
    for name in ("onnx_parity", "exporter", "harness", "op_cases", "model_zoo", "reports"):
        subprocess.run(["cp", "-r", str(CLONE / name), str(copy)], check=True)
    (copy / "harness" / "one_line.py").open("a").write("# another version\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(copy), str(project)])}
    wrong = []
    for command in (("run", "--no-report"), ("search", "--programs", "1", "--out", "runs/refused")):
        ended = subprocess.run(
            [sys.executable, "-c", PARITY, *command, "--on", cluster.address, "-n", "1"],
            cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        told = "is not used: 1 file of onnx-parity differ" in ended.stdout and "pass --mixed" in ended.stdout
        wrong += [] if told and ended.returncode == 2 else [f"exit code {ended.returncode}: {ended.stdout[-300:]}"]
    return wrong


def job(project: Path, wanted: dict[str, Record]) -> list[str]:
    """A run is sent to a cluster; who follows it is stopped, and another one follows it to its end."""
    with cluster_of(2, dashboard=True) as cluster:
        on = ("--on", f"http://{cluster.ray.webui_url}")
        sent = start(project, *on, "--python", sys.executable)
        if sent.end() != 0:
            return [f"it could not be sent: {sent.text[-300:]}"]
        first = start(project, "--follow", "last", *on)
        first.wait_for(1)
        first.process.send_signal(signal.SIGINT)
        code = first.end()
        left = code == 2 and "goes on. Follow it again" in first.text
        wrong = [] if left else [f"following it ended with {code}: {first.text[-300:]}"]
        second = start(project, "--follow", "last", "--no-report", *on)
        code = second.end()
    assert first.folder is not None, first.text
    # There are crashes among the cells.
    wrong += [] if code == 1 else [f"exit code {code}: {second.text[-300:]}"]
    return wrong + compared(first.folder, wanted)


def search_with_node_loss(project: Path, cluster: Cluster, draw: random.Random) -> list[str]:
    """`parity search` looks at each program once, with a node killed meanwhile."""
    wanted = 30
    options = ("--programs", str(wanted), "--minutes", "60", "--probes", "onnxruntime", "--out", "runs/search")
    run = start(project, *options, "--json", "--on", cluster.address, command="search")
    time.sleep(draw.uniform(10.0, 40.0))
    if run.process.poll() is None:
        cluster.kill(draw)
        cluster.add()
    code = run.end()
    told = f'"programs":{wanted},' in run.text
    return [] if told and code in (0, 1) else [f"exit code {code}: {run.text[-300:]}"]


def scenarios(
    project: Path, wanted: dict[str, Record], cluster: Callable[[], Cluster], *, kills: int, resumes: int, together: int
) -> list[Scenario]:
    """All of them, those last that have clusters of their own."""

    def kill_nodes(draw: random.Random, left: int) -> Played:
        wrong, killed = node_losses(project, cluster(), wanted, draw, min(together, left))
        return Played(KILLED, wrong, killed, f"{killed} in this run")

    def kill_driver(draw: random.Random, left: int) -> Played:
        wrong, victim = driver_loss(project, cluster(), wanted, draw)
        return Played(RESUMED, wrong, 1, victim)

    def once(name: str, play: Callable[[random.Random], list[str]], *, apart: bool = False) -> Scenario:
        return Scenario(name, lambda draw, left: Played(name, play(draw)), apart=apart)

    return [
        once("an address where nothing answers", lambda draw: unreachable(project)),
        once("nothing happens", lambda draw: undisturbed(project, cluster(), wanted)),
        once("the object store is full", lambda draw: full_store(project, cluster(), wanted)),
        once("a version differs", lambda draw: other_versions(project, cluster())),
        Scenario(KILLED, kill_nodes, kills),
        Scenario(RESUMED, kill_driver, resumes),
        once("a node is lost to a search", lambda draw: search_with_node_loss(project, cluster(), draw)),
        once("the head is lost", lambda draw: lost_head(project, wanted, draw), apart=True),
        once("a job is sent and followed", lambda draw: job(project, wanted), apart=True),
    ]


KILLED, RESUMED = "a node is killed", "the driver is killed and resumed"


def main(
    nodes: Annotated[int, typer.Option(min=2, help="The nodes of the cluster.")] = 3,
    kills: Annotated[int, typer.Option(min=0, help="How often a node is killed.")] = 30,
    resumes: Annotated[int, typer.Option(min=0, help="How often the driver is killed.")] = 10,
    together: Annotated[int, typer.Option(min=1, help="How many nodes are killed in one run.")] = 3,
    slow: Annotated[int, typer.Option(min=1, help="How many cases take a while.")] = 12,
    seed: Annotated[int, typer.Option(help="The seed of the moments.")] = 0,
    only: Annotated[str, typer.Option(help="A regular expression for the names of the scenarios.")] = "",
    tally: Annotated[
        Path | None, typer.Option(help="A file that lists the finished scenarios, from which another call continues.")
    ] = None,
    minutes: Annotated[float, typer.Option(help="Begin nothing after so many minutes.")] = math.inf,
) -> None:
    """Break clusters. Exit codes: 0 if every record was right, 1 if not, 2 if scenarios are left or have no such
    name.
    """
    so_far = Tally(tally, time.monotonic() + 60 * minutes, seed)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:

        @cache
        def cluster() -> Cluster:
            return stack.enter_context(cluster_of(nodes))

        project = make_project(Path(folder), slow)
        wanted: dict[str, Record] = {}
        every = scenarios(project, wanted, cluster, kills=kills, resumes=resumes, together=together)
        chosen = search("--only", only, [each.name for each in every if each.times])
        asked = [each for each in every if each.name in chosen]
        if left := [each for each in asked if so_far.left(each) > 0]:
            wanted |= local_records(project, 1)
            typer.echo(f"{len(wanted)} cells: {', '.join(sorted({each.status.value for each in wanted.values()}))}")
        for scenario in left:
            if scenario.apart:
                stack.close()
            if not so_far.play(scenario):
                break
    if left := [each for each in asked if so_far.left(each) > 0]:
        typer.echo(f"left: {', '.join(f'{each.name} {so_far.left(each)} times' for each in left)}")
    for scenario in asked:
        typer.echo(f"{scenario.name}: {scenario.times - so_far.left(scenario)} of {scenario.times}")
    typer.echo("ok" if not so_far.wrong else "\n".join([f"{len(so_far.wrong)} wrong", *so_far.wrong]))
    raise typer.Exit(1 if so_far.wrong else 2 if left else 0)


if __name__ == "__main__":
    typer.run(main)
