"""Runs cells on a Ray cluster of several nodes on this machine, breaks it, and compares the records with a local run.

    pip install 'onnx-parity[ray]'
    python -m benchmarks.cluster.faults --kills 30 --resumes 10

Each node is a raylet of its own, as on a machine of its own. Nodes and drivers are killed with SIGKILL at random
moments. In every scenario each cell has to have exactly one record, with the outcome that it has in a local run; only
times, memory and the names of workers may differ.
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from onnx_parity.harness.record import Record
from onnx_parity.harness.store import read_lines, record_files

#: What differs between two runs of the same cells.
_OF_A_RUN = ("seconds", "began", "elapsed", "export_cpu", "memory", "worker", "options")
_CLONE = Path(__file__).parents[2]
_PARITY = "from onnx_parity.harness.cli import app; app()"

#: Declarations with every kind of outcome, crashes among them.
_CASES = """
import ctypes, os, time
import torch
import torch.nn.functional as F
from onnx_parity.harness.case import floats, op

def crashes(x):
    ctypes.string_at(0)

def takes_a_while(x, number):
    time.sleep(0.02)
    return F.elu(x) + number

def leaves(x):
    os._exit(3)

def is_refused(x):
    return torch.linalg.eigvals(x)

crash = op(crashes, floats(2, 3))
left = op(leaves, floats(2, 3))
elu = op(F.elu, floats(2, 3), alpha=[1.0, 0.5], dynamic={{"x": {{0: "batch"}}}})
relu = op(F.relu, floats(2, 3))
refused = op(is_refused, floats(3, 3))
slow = op(takes_a_while, floats(2, 3), number=list(range({slow})))
"""


@dataclass
class Tally:
    """What went wrong, by scenario."""

    wrong: list[str] = field(default_factory=list)
    played: int = 0

    def report(self, scenario: str, wrong: list[str], seconds: float, note: str = "") -> None:
        self.played += 1
        self.wrong += [f"{scenario}: {each}" for each in wrong]
        state = "ok" if not wrong else f"WRONG: {'; '.join(wrong[:3])}"
        typer.echo(f"{scenario:<44} {seconds:6.0f} s  {state}{f'  {note}' if note else ''}")


@dataclass
class Cluster:
    """A head without processors, and nodes with one or more, each a raylet on this machine."""

    ray: Any
    processors: int
    nodes: list[Any] = field(default_factory=list)

    @property
    def address(self) -> str:
        return str(self.ray.address)

    def add(self) -> None:
        self.nodes.append(self.ray.add_node(num_cpus=self.processors, object_store_memory=80 << 20))

    def kill(self, draw: random.Random) -> None:
        """Kill a node's raylet as a machine dies: everything on it with it, without a word."""
        node = self.nodes.pop(draw.randrange(len(self.nodes)))
        self.ray.remove_node(node, allow_graceful=False)


@contextmanager
def cluster_of(nodes: int, processors: int = 1) -> Iterator[Cluster]:
    from ray.cluster_utils import Cluster as Simulated

    os.environ.setdefault("RAY_worker_niceness", "0")
    simulated = Simulated(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": 80 << 20, "include_dashboard": False},
    )
    cluster = Cluster(simulated, processors)
    try:
        for _ in range(nodes):
            cluster.add()
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

    def wait_for(self, cells: int, seconds: float = 900.0) -> None:
        """Wait until so many cells have a record."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.process.poll() is None:
            if self.folder is not None and lines_of(self.folder) >= cells:
                return
            time.sleep(0.05)

    def end(self, seconds: float = 1800.0) -> int:
        return self.process.wait(seconds)

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")


def start(project: Path, *options: str) -> Run:
    before = _runs_of(project)
    log = project / f"log-{time.monotonic_ns()}.txt"
    environment = {**os.environ, "PYTHONPATH": str(_CLONE)}
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _PARITY, "run", "--no-report", *options],
            cwd=project, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True, process_group=0,
        )  # fmt: skip
    return Run(process, project, log, before)


def _runs_of(project: Path) -> frozenset[Path]:
    return frozenset(path.resolve() for path in (project / "runs").glob("2*"))


def make_project(root: Path, slow: int) -> Path:
    """Write a project of which so many cases take a while."""
    (root / "cases.py").write_text(_CASES.format(slow=slow))
    (root / "pyproject.toml").write_text('[tool.parity]\ndeclarations = ["cases.py"]\ndevices = ["cpu"]\n')
    return root


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
    for cell in sorted(found.keys() & wanted.keys()):
        differ = [name for name in Record.__struct_fields__ if _value(found[cell], name) != _value(wanted[cell], name)]
        if differ:
            name = differ[0]
            here, there = _value(wanted[cell], name), _value(found[cell], name)
            wrong.append(f"{cell} differs in {name}: {there!s:.200}, locally {here!s:.200}")
    return wrong


def _value(record: Record, name: str) -> object:
    """A field without what differs between any two runs."""
    if name in _OF_A_RUN:
        return None
    value = getattr(record, name)
    if isinstance(value, str):
        # The run's own folder, and where the files of the project are on a node.
        value = re.sub(r"runs/[0-9-]+", "runs/", value)
        if name == "message":
            # Below this is the stack, whose outer frames are the harness's.
            value = value.partition("Fatal Python error")[0]
        value = re.sub(r"/\S*/(?=\w+\.py)", "", value)
    return value


def undisturbed(project: Path, cluster: Cluster, wanted: dict[str, Record]) -> list[str]:
    run = start(project, "--on", cluster.address)
    run.end()
    assert run.folder is not None, run.text
    bundles = [record.bundle for record in read_lines(run.folder) if record.bundle]
    lost = [bundle for bundle in bundles if not (run.folder / bundle / "bundle.json").exists()]
    return compared(run.folder, wanted) + [f"{bundle} was not brought home" for bundle in lost]


def node_loss(project: Path, cluster: Cluster, wanted: dict[str, Record], draw: random.Random) -> list[str]:
    run = start(project, "--on", cluster.address)
    run.wait_for(draw.randrange(1, len(wanted) // 2))
    cluster.kill(draw)
    cluster.add()
    run.end()
    assert run.folder is not None, run.text
    told = [] if "is lost" in run.text else ["the lost node was not told"]
    return compared(run.folder, wanted) + told


def driver_loss(project: Path, cluster: Cluster, wanted: dict[str, Record], draw: random.Random) -> list[str]:
    run = start(project, "--on", cluster.address)
    run.wait_for(draw.randrange(1, len(wanted) * 3 // 4))
    os.killpg(run.process.pid, signal.SIGKILL)
    run.process.wait()
    assert run.folder is not None, run.text
    _wait_for_the_end(run.folder)
    before = lines_of(run.folder)
    again = start(project, "--resume", str(run.folder))
    code = again.end()
    # There are crashes among the cells.
    wrong = [] if code == 1 else [f"exit code {code}: {again.text[-300:]}"]
    wrong += [] if before < lines_of(run.folder) else ["nothing was left to be resumed"]
    return compared(run.folder, wanted) + wrong


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
        subprocess.run(["cp", "-r", str(_CLONE / name), str(copy)], check=True)
    (copy / "harness" / "one_line.py").open("a").write("# another version\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(copy), str(project)])}
    ended = subprocess.run(
        [sys.executable, "-c", _PARITY, "run", "--no-report", "--on", cluster.address, "-n", "1"],
        cwd=project, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = "is not used: 1 file of onnx-parity differ" in ended.stdout
    return [] if told and ended.returncode == 2 else [f"exit code {ended.returncode}: {ended.stdout[-300:]}"]


def main(
    nodes: Annotated[int, typer.Option(min=2, help="The nodes of the cluster.")] = 3,
    kills: Annotated[int, typer.Option(help="How often a node is killed.")] = 30,
    resumes: Annotated[int, typer.Option(help="How often the driver is killed.")] = 10,
    slow: Annotated[int, typer.Option(help="How many cases take a while.")] = 20,
    seed: Annotated[int, typer.Option(help="The seed of the moments.")] = 0,
    only: Annotated[str, typer.Option(help="Only scenarios whose names contain this.")] = "",
) -> None:
    """Break clusters. Exit codes: 0 if every record was right, 1 if not, 2 if no scenario has such a name."""
    draw, tally = random.Random(seed), Tally()
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder), slow)
        wanted = local_records(project, nodes)
        statuses = sorted({record.status.value for record in wanted.values()})
        typer.echo(f"{len(wanted)} cells: {', '.join(statuses)}")

        def play(name: str, scenario: Callable[[], list[str]], repeats: int = 1) -> None:
            if only not in name:
                return
            for number in range(1, repeats + 1):
                began = time.monotonic()
                of = f" {number} of {repeats}" if repeats > 1 else ""
                tally.report(f"{name}{of}", scenario(), time.monotonic() - began)

        play("an address where nothing answers", lambda: unreachable(project))
        with cluster_of(nodes) as cluster:
            play("nothing happens", lambda: undisturbed(project, cluster, wanted))
            play("a node is killed", lambda: node_loss(project, cluster, wanted, draw), kills)
            play("the driver is killed, and resumed", lambda: driver_loss(project, cluster, wanted, draw), resumes)
            play("the object store is full", lambda: full_store(project, cluster, wanted))
            play("a version differs", lambda: other_versions(project, cluster))
        play("the head is lost", lambda: lost_head(project, wanted, draw))
    if not tally.played:
        typer.echo(f"no scenario was played: none has {only!r} in its name, or it is to be played 0 times", err=True)
        raise typer.Exit(2)
    typer.echo("ok" if not tally.wrong else f"{len(tally.wrong)} wrong")
    raise typer.Exit(1 if tally.wrong else 0)


if __name__ == "__main__":
    typer.run(main)
