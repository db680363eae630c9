"""Simulates runs of the matrix on clusters that are larger than this machine, from the durations of a recorded run.

    parity run --tier full --opsets 7-26 --devices cpu
    python -m benchmarks.cluster runs/last

The cells are given to simulated workers by the code that gives them to real ones (`harness/cluster/schedule.py`). What
is simulated is time: how long nodes and workers take to start, messages, the driver's own work, and nodes that are
taken away, as spot instances are. What the driver does with a record is measured here, with real records.

The lower bound is what no schedule can beat with the same machines: from the moment at which each of them is ready, all
of them compute without a pause until the work is done, and the longest cell runs at once.
"""

from __future__ import annotations

import heapq
import io
import itertools
import math
import random
import tempfile
import time
import tracemalloc
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
import typer

from benchmarks.at_scale.made_run import made_records
from onnx_parity.harness.cluster.messages import CellWork
from onnx_parity.harness.cluster.schedule import Schedule
from onnx_parity.harness.matrix.shards import group_of
from onnx_parity.harness.record import Record
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.running.run_log import RunLog
from onnx_parity.harness.store import read_info, read_records, record_files

CORES = (8, 64, 512, 4096)
#: What is collected to measure the collection.
DECLARATIONS = Path(__file__).parents[2] / "op_cases" / "cumulative.py"
#: The time to the end, relative to the lower bound, up to this many cores.
TARGET, UP_TO = 1.15, 512
_CORES_OF_A_NODE = 16


@dataclass(frozen=True)
class Costs:
    """What a cluster costs in time. The defaults were measured on two cores, or are those of cloud providers."""

    #: Seconds until a node is ready, and how much nodes differ (the sigma of a log-normal distribution).
    node: float = 45.0
    node_spread: float = 0.25
    #: Seconds until a worker has imported torch.
    worker: float = 6.0
    #: Seconds of a message from worker to coordinator and back, and of the coordinator's work on it.
    message: float = 0.005
    exchange: float = 0.0006
    #: Seconds that the coordinator and pytest spend on a record, and pytest on collecting a cell.
    coordinate: float = 3e-6
    report: float = 60e-6
    collect: float = 50e-6
    #: How far durations are from those of the earlier run (sigma), and nodes that are lost in an hour, of one.
    noise: float = 0.25
    losses: float = 0.05
    #: Seconds until a node that was lost is known to be, and replaced.
    noticed: float = 20.0
    #: Dollars for a core and hour: AWS c7i in us-east-1, on demand.
    price: float = 0.0446


@dataclass(eq=False)
class _Worker:
    name: str
    node: int
    ready: float
    queue: deque[CellWork] = field(default_factory=deque)
    #: When the cell that runs ends, and cells that have ended and are not reported.
    busy_until: float = 0.0
    ended: deque[tuple[float, CellWork]] = field(default_factory=deque)
    group: str = ""


#: What happens at an event of a worker.
_Handle = Callable[[float, _Worker], None]


class Figures(msgspec.Struct, frozen=True):
    """One simulated run."""

    cores: int
    seconds: float
    bound: float
    #: What the lower bound consists of, and what the driver takes by itself.
    work: float
    starts: float
    longest: float
    driver: float
    lost_nodes: int
    #: The share of the paid time in which cells were computed.
    busy: float
    dollars: float

    @property
    def ratio(self) -> float:
        return self.seconds / self.bound

    @property
    def bounded_by(self) -> str:
        parts = {"the work": self.work, "the start of nodes": self.starts, "the longest cell": self.longest}
        return "the driver" if self.driver > self.bound else max(parts, key=lambda name: parts[name])


class Simulation:
    """A run on a number of cores, event by event."""

    def __init__(
        self, cells: Sequence[CellWork], captures: dict[str, float], cores: int, costs: Costs, seed: int
    ) -> None:
        self._random = random.Random(f"{cores} {seed}")
        self._costs = costs
        self._cores = cores
        #: What a cell really takes, and its group's capture, which is repeated where a group is split.
        self._takes = {cell.nodeid: cell.seconds * self._random.lognormvariate(0, costs.noise) for cell in cells}
        self._captures = captures
        self._first = {cell.group: cell.nodeid for cell in reversed(cells)}
        self._schedule = Schedule(cells)
        self._events: list[tuple[float, int, _Handle, _Worker]] = []
        self._numbers = itertools.count()
        self._workers: dict[str, _Worker] = {}
        self._collected = costs.collect * len(cells)
        self._interval = max(0.5, cores / 500)
        self._coordinator = self._pytest = 0.0
        self._idle: dict[str, _Worker] = {}
        self.lost_nodes = 0
        self._dead: set[int] = set()
        self._node_numbers = itertools.count()
        self._cells = len(cells)

    def run(self) -> Figures:
        for begin in range(0, self._cores, _CORES_OF_A_NODE):
            self._start_node(0.0, min(_CORES_OF_A_NODE, self._cores - begin))
        starts = sorted(worker.ready for worker in self._workers.values())
        now = 0.0
        while self._schedule.left:
            now, _, handle, worker = heapq.heappop(self._events)
            if worker.node in self._dead and handle != self._noticed:
                continue
            handle(now, worker)
        end = max(now, self._pytest)
        work = sum(self._takes.values())
        longest = max(self._takes.values())
        bound = _bound([max(each, self._collected) for each in starts], work, longest)
        paid = self._cores * end
        return Figures(
            self._cores, end, bound, work / self._cores, max(starts[0], self._collected), longest,
            self._collected + self._cells * self._costs.report, self.lost_nodes,
            work / paid, paid / 3600 * self._costs.price,
        )  # fmt: skip

    def _start_node(self, now: float, cores: int) -> None:
        number = next(self._node_numbers)
        up = now + self._costs.node * self._random.lognormvariate(0, self._costs.node_spread)
        for core in range(cores):
            worker = _Worker(f"{number}-{core}", number, up + self._costs.worker)
            self._workers[worker.name] = worker
            self._at(max(worker.ready, self._collected), self._asks, worker)
        self._at(up + self._random.expovariate(self._costs.losses / 3600), self._lost, worker)

    def _at(self, when: float, handle: _Handle, worker: _Worker) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), handle, worker))

    def _asks(self, now: float, worker: _Worker) -> None:
        """A message of the worker arrives: it reports, and is given cells."""
        self._advance(worker, now)
        begin = max(now + self._costs.message / 2, self._coordinator)
        reported = 0
        while worker.ended and worker.ended[0][0] <= now:
            self._schedule.record(worker.name, worker.ended.popleft()[1].nodeid)
            reported += 1
        self._coordinator = begin + self._costs.exchange + reported * self._costs.coordinate
        self._pytest = max(self._pytest, self._coordinator) + reported * self._costs.report
        answered = self._coordinator + self._costs.message / 2
        if self._schedule.left_of(worker.name) < 1.0:
            given = self._schedule.take(worker.name, workers=len(self._workers))
            if given and not worker.queue:
                worker.busy_until = max(worker.busy_until, answered)
            worker.queue.extend(given)
        if worker.queue or worker.ended:
            self._idle.pop(worker.name, None)
            left = self._schedule.left_of(worker.name)
            self._at(answered + min(self._interval, max(left, 0.02)), self._asks, worker)
        else:
            self._idle[worker.name] = worker
            self._at(answered + self._interval, self._asks, worker)
        if not self._schedule.waits and self._idle:
            for name, number in self._schedule.to_split(idle=len(self._idle)):
                victim = self._workers[name]
                self._advance(victim, now)
                # The first cell of the queue has begun.
                number = min(number, max(len(victim.queue) - 1, 0))
                self._schedule.take_back(name, [victim.queue.pop().nodeid for _ in range(number)])
            if self._schedule.waits:
                # The victim gives them back in its next message.
                for each in list(self._idle.values()):
                    del self._idle[each.name]
                    self._at(answered + self._interval / 2, self._asks, each)

    def _advance(self, worker: _Worker, now: float) -> None:
        """What the worker has begun by now."""
        while worker.queue and worker.busy_until <= now:
            cell = worker.queue.popleft()
            seconds = self._takes[cell.nodeid]
            if cell.group != worker.group and self._first[cell.group] != cell.nodeid:
                seconds += self._captures.get(cell.group, 0.0)
            worker.group = cell.group
            worker.busy_until += seconds
            worker.ended.append((worker.busy_until, cell))

    def _lost(self, now: float, worker: _Worker) -> None:
        """The worker's node is taken away. The cells that it has not reported are run again."""
        self.lost_nodes += 1
        self._dead.add(worker.node)
        self._at(now + self._costs.noticed, self._noticed, worker)

    def _noticed(self, now: float, worker: _Worker) -> None:
        gone = [each for each in self._workers.values() if each.node == worker.node]
        for each in gone:
            del self._workers[each.name]
            self._idle.pop(each.name, None)
            self._schedule.lost(each.name)
        self._start_node(now, len(gone))


def _bound(ready: Iterable[float], work: float, longest: float) -> float:
    """When workers that are ready at these times can have done the work, at the earliest."""
    first = 0.0
    started: list[float] = []
    for begin in sorted(ready):
        if started and sum(begin - each for each in started) >= work:
            break
        started.append(begin)
        first = first or begin
    return max((work + sum(started)) / len(started), first + longest)


def cells_of(records: Iterable[Record]) -> tuple[list[CellWork], dict[str, float]]:
    """The cells of a run in their order, with their durations; and the seconds of the capture of each group."""
    groups: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[f"{group_of(record.case, record.dtype)}-{record.device}"].append(record)
    cells, captures = [], {}
    for group, members in groups.items():
        seconds = [each.elapsed or sum(each.seconds.values()) for each in members]
        # The first cell of a group captures the program and computes the reference for the others.
        captures[group] = max(0.0, seconds[0] - sorted(seconds)[len(seconds) // 2])
        cells += [CellWork(each.nodeid, group, took) for each, took in zip(members, seconds, strict=True)]
    return cells, captures


class _Reports:
    """A pytest that does with records what that of a run on a cluster does."""

    def __init__(self, records: Sequence[Record], folder: Path) -> None:
        self._records = records
        self._folder = folder
        self.seconds = 0.0

    def pytest_collection(self) -> bool:
        return True

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        from onnx_parity.harness.pytest_plugin.cell_report import CellReport, outcome_of
        from onnx_parity.harness.record import RunInfo

        lines = b"".join(msgspec.json.encode(record) + b"\n" for record in self._records)
        log = RunLog(self._folder, lambda: RunInfo("made", "", 0, "full"), "main")
        decoder = msgspec.json.Decoder(Record)
        began = time.process_time()
        log.bring(lines)
        for line in lines.splitlines():
            record = decoder.decode(line)
            outcome, words = outcome_of(record, strict_unsupported=False)
            place = (record.file, record.line, record.case)
            report = CellReport(record.nodeid, place, record.status, outcome, words, record.began, record.began)
            session.config.hook.pytest_runtest_logreport(report=report)
        self.seconds = time.process_time() - began
        log.close()
        return True


def seconds_of_a_report(number: int = 5_000) -> float:
    """The processor time that pytest takes to write and report a record that has arrived."""
    with tempfile.TemporaryDirectory() as folder:
        plugin = _Reports(list(made_records(number)), Path(folder))
        # Nothing is collected there, and `--parity-pace` prints lines as a run does.
        options = ["-q", "--parity-pace", "-p", "no:cacheprovider", "-p", "no:terminalreporter", f"--rootdir={folder}"]
        pytest.main([*options, folder], plugins=[plugin])
    return plugin.seconds / number


class _Collecting:
    """Measures what pytest takes to collect declarations."""

    def __init__(self, *, traced: bool) -> None:
        self._traced = traced
        self.seconds = 0.0
        self.bytes = 0
        self.cells = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self, session: pytest.Session) -> Generator[None, object, object]:
        # What a file of declarations imports is there once, however many cells there are.
        import_module(f"onnx_parity.{DECLARATIONS.parent.name}.{DECLARATIONS.stem}")
        if self._traced:
            tracemalloc.start()
        began = time.process_time()
        result = yield
        self.seconds = time.process_time() - began
        if self._traced:
            self.bytes, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        self.cells = len(session.items)
        return result


def costs_of_collecting() -> tuple[float, float]:
    """The processor time and the bytes that pytest takes to collect a further cell."""

    def collected(opsets: str, *, traced: bool = False) -> _Collecting:
        plugin = _Collecting(traced=traced)
        options = ["-q", "--collect-only", "-p", "no:cacheprovider", "-p", "no:terminalreporter"]
        with redirect_stdout(io.StringIO()):
            pytest.main([*options, f"--parity-opsets={opsets}", str(DECLARATIONS)], plugins=[plugin])
        return plugin

    # The first collection of a process takes longer.
    _, few, many = collected("18"), collected("18"), collected("7-26")
    traced = collected("7-26", traced=True)
    return (many.seconds - few.seconds) / (many.cells - few.cells), traced.bytes / traced.cells


def seconds_of_coordinating(number: int = 100_000) -> float:
    """The processor time that the coordinator takes for a record."""
    from onnx_parity.harness.cluster.coordinator import key_of

    lines = [msgspec.json.encode(record) for record in made_records(number)]
    schedule = Schedule([CellWork(key_of(line).nodeid, "", 1.0) for line in lines])
    given = schedule.take("one", workers=1)
    while given:
        given = schedule.take("one", workers=1)
    began = time.process_time()
    for line in lines:
        schedule.record("one", key_of(line).nodeid)
    return (time.process_time() - began) / number


def main(
    run: Annotated[Path, typer.Argument(help="A run whose cells and durations are used.")] = Path("runs/last"),
    cores: Annotated[str, typer.Option(help="How many cores, separated by commas.")] = ",".join(map(str, CORES)),
    price: Annotated[float, typer.Option(help="Dollars for a core and an hour.")] = Costs.price,
    losses: Annotated[float, typer.Option(help="How many nodes of one are lost in an hour.")] = Costs.losses,
    seeds: Annotated[int, typer.Option(min=1, help="How many simulations of each; the slowest is shown.")] = 3,
    cells: Annotated[int, typer.Option(help="Repeat the run's cases until it has so many cells; 0 for as it is.")] = 0,
) -> None:
    """Simulate runs on clusters. Exit codes: 0 if the target holds, 1 if not, 2 if there is no run with cells."""
    try:
        info, records = read_info(run), read_records(run)
    except RunStoreError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    own, own_captures = cells_of(records)
    if not own:
        typer.echo(f"{run} has no cells to simulate", err=True)
        raise typer.Exit(2)
    work, captures = list(own), dict(own_captures)
    for copy in range(1, math.ceil(cells / len(own))):
        work += [CellWork(f"{each.nodeid} {copy}", f"{each.group} {copy}", each.seconds) for each in own]
        captures |= {f"{group} {copy}": seconds for group, seconds in own_captures.items()}
    report, coordinate = seconds_of_a_report(), seconds_of_coordinating()
    collect, held = costs_of_collecting()
    line = sum(path.stat().st_size for path in record_files(run)) / len(own)
    costs = Costs(report=report, coordinate=coordinate, collect=collect, price=price, losses=losses)
    total = sum(cell.seconds for cell in work)
    typer.echo(f"{info.id}: {len(work)} cells of tier {info.tier}, {total / 3600:.2f} core-hours")
    typer.echo(
        f"{'cores':>6} {'to the end':>11} {'bound':>8} {'ratio':>6} {'busy':>5} {'lost':>5} {'dollars':>8}  bounded by"
    )
    met = True
    for number in map(int, cores.split(",")):
        found = max(
            (Simulation(work, captures, number, costs, seed).run() for seed in range(seeds)),
            key=lambda figures: figures.ratio,
        )
        within = number > UP_TO or found.ratio <= TARGET
        met &= within
        typer.echo(
            f"{number:>6} {found.seconds:>9.0f} s {found.bound:>6.0f} s {found.ratio:>6.2f} {found.busy:>5.0%} "
            f"{found.lost_nodes:>5} {found.dollars:>8.3f}  {found.bounded_by}{'' if within else '   short'}"
        )
    typer.echo(
        f"the driver: {costs.collect * 1e6:.0f} µs to collect a cell, {report * 1e6:.0f} µs to write and report it, "
        f"{coordinate * 1e6:.1f} µs to account for it"
    )
    typer.echo(
        f"10 million cells take it {1e7 * (collect + report) / 60:.0f} minutes of processor time, "
        f"{1e7 * held / (1 << 30):.0f} GiB of memory and {1e7 * line / (1 << 30):.0f} GiB of disk"
    )
    typer.echo(f"{'ok' if met else 'short'}: within {TARGET} of the lower bound up to {UP_TO} cores")
    raise typer.Exit(0 if met else 1)


if __name__ == "__main__":
    typer.run(main)
