"""Runs the same cells without and with a Ray cluster of as many processors, in turn, and compares records and times.

    pip install 'onnx-parity[ray]'
    python -m benchmarks.cluster.pairs --pairs 3 --shard 1/10

Arguments are those of `parity run`. Without any, the default tier is run. The nodes of the cluster are raylets on this
machine, which have one processor each; their own start is not counted. Whole commands are compared: a local run
collects its cells before it runs the first of them, and a node collects them while it runs others.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.cluster.raylets import CLONE, cluster_of, compared, start
from onnx_parity.harness.store import read_lines

#: The cells a second of the whole command on the cluster, relative to those without it.
TARGET = 0.9
_PR_SET_CHILD_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Figures:
    """One run."""

    run: Path
    cells: int
    #: Seconds from the beginning of the first cell to the end of the last, and from start to end of the command.
    seconds: float
    whole: float
    #: Seconds of processor time of all its processes.
    processor: float

    def line(self, name: str) -> str:
        return (
            f"{name:<10} {self.cells} cells  {self.cells / self.seconds:6.1f}/s  {self.seconds:6.1f} s "
            f"of {self.whole:6.1f} s  {self.processor:6.1f} s of processor time"
        )


class _Meter(threading.Thread):
    """The processor time of all processes that descend from this one, as long as they live."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._ends = threading.Event()
        self._before = _spent()
        self._most = self._before

    @property
    def seconds(self) -> float:
        return self._most - self._before

    def run(self) -> None:
        while not self._ends.wait(0.2):
            self._most = max(self._most, _spent())

    def end(self) -> None:
        self._ends.set()
        self.join()
        self._most = max(self._most, _spent())


@contextmanager
def _metered() -> Iterator[_Meter]:
    meter = _Meter()
    meter.start()
    yield meter
    meter.end()


def _spent() -> float:
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            parents[int(name)] = int(fields[1])
            # Its own time in the program and in the system, and that of its children that have ended.
            spent[int(name)] = sum(map(int, fields[11:15]))
    own = os.getpid()

    def descends(process: int) -> bool:
        while process in parents and process != own:
            process = parents[process]
        return process == own

    return sum(ticks for process, ticks in spent.items() if descends(process)) / _TICKS


def measured(project: Path, *options: str) -> Figures:
    began = time.monotonic()
    with _metered() as meter:
        run = start(project, *options, folder=CLONE)
        run.end()
    whole = time.monotonic() - began
    if run.folder is None:
        typer.echo(f"no cell was run:\n{run.text[-2000:]}", err=True)
        raise typer.Exit(2)
    records = list(read_lines(run.folder))
    first = min(record.began for record in records)
    last = max(record.began + record.elapsed for record in records)
    return Figures(run.folder, len(records), last - first, whole, meter.seconds)


def main(
    context: typer.Context,
    pairs: Annotated[int, typer.Option(min=1, help="How often.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="How many processors.")] = os.cpu_count() or 1,
) -> None:
    """Compare runs with and without a cluster. Exit codes: 0 if records and target hold, 1 if not, 2 if nothing ran."""
    # What a raylet leaves behind stays a descendant of this process.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    given = tuple(context.args)
    rates, of_cells, spent, wrong = [], [], [], []
    with tempfile.TemporaryDirectory() as folder, cluster_of(workers) as cluster:
        project = Path(folder)
        for number in range(1, pairs + 1):
            here = measured(project, *given, "-n", str(workers))
            typer.echo(here.line(f"{number} here"))
            there = measured(project, *given, "--on", cluster.address)
            typer.echo(there.line(f"{number} cluster"))
            found = compared(there.run, {record.cell: record for record in read_lines(here.run)})
            wrong += found
            rates.append((there.cells / there.whole) / (here.cells / here.whole))
            of_cells.append((there.cells / there.seconds) / (here.cells / here.seconds))
            spent.append(there.processor / here.processor)
            typer.echo(f"{f'{number} records':<10} {'the same' if not found else '; '.join(found[:5])}")
    rate = statistics.median(rates)
    held = rate >= TARGET
    typer.echo(f"processor time on the cluster: {statistics.median(spent):.2f} of that without it")
    typer.echo(f"cells a second from the first cell to the last: {statistics.median(of_cells):.2f} of those without it")
    typer.echo(f"{'ok' if held else 'short'}: cells a second of the whole command {rate:.2f}, at least {TARGET}")
    typer.echo("ok: the same records" if not wrong else f"wrong: {len(wrong)} differences between records")
    raise typer.Exit(0 if held and not wrong else 1)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False)
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(main)
    app()
