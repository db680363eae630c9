"""The cost of a run of the matrix, from its records: speed, the harness's share of the time, memory of its workers.

parity run --tier full --opsets 7-26 --devices cpu -n 2
python -m benchmarks.run_figures runs/last
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import msgspec
import typer

from onnx_parity.harness.record import Record, RunInfo
from onnx_parity.harness.results.profile import Profile, WorkerTime, profile_of
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import read_info, read_records

#: Targets for a run of the full matrix on two cores.
RATE, SHARE, GROWTH = 150.0, 0.2, 0.25

#: Workers with fewer cells are not used for memory, because they have not yet imported all that most runs need.
_ENOUGH_CELLS = 200
#: What is no part of the time while cells run.
_AROUND = ("before the first cell", "after the last cell")


class RunFigures(msgspec.Struct, frozen=True):
    profile: Profile
    #: Worker to the median memory in MiB: of the second tenth of its cells, when all is imported, and the largest of a
    #: later tenth.
    memory: dict[str, tuple[int, int]]

    def rate(self) -> float:
        """Cells per second while cells ran, without the imports and collection before and the summary after."""
        return self.profile.cells / max(map(seconds_of, self.profile.workers.values()))

    def share(self) -> float:
        """The share of the workers' time outside of the stages, which is the cost of the harness."""
        workers = self.profile.workers.values()
        return 1 - sum(sum(each.stages.values()) for each in workers) / sum(map(seconds_of, workers))

    def growth(self) -> float | None:
        """The largest growth of a worker's memory, as a share; None if no worker had enough cells to measure it."""
        return max((last / first - 1 for first, last in self.memory.values()), default=None)


def seconds_of(worker: WorkerTime) -> float:
    """From the beginning of its first cell to the end of its last."""
    return worker.in_cells + worker.between


def read_figures(run: Path) -> RunFigures | None:
    """The figures of a run; None if no record has the time of its cell."""
    return figures(read_info(run), read_records(run))


def figures(info: RunInfo, records: Iterable[Record]) -> RunFigures | None:
    cells = list(records)
    profile = profile_of(info, cells)
    if profile is None:
        return None
    ran = sorted((cell for cell in cells if cell.began and not cell.carried), key=lambda cell: cell.began)
    memory = {name: _memory_of([cell for cell in ran if cell.worker == name]) for name in profile.workers}
    return RunFigures(profile, {name: found for name, found in memory.items() if found is not None})


def _memory_of(cells: list[Record]) -> tuple[int, int] | None:
    if len(cells) < _ENOUGH_CELLS:
        return None
    bounds = [len(cells) * tenths // 10 for tenths in range(11)]
    _, second, *later = [_memory(cells[start:end]) for start, end in itertools.pairwise(bounds)]
    return (second, max(later)) if second and max(later) else None


def _memory(cells: list[Record]) -> int:
    """The median memory of those processes that did not die in a cell, since a dead process reports no memory."""
    known = [cell.memory for cell in cells if cell.memory]
    return round(median(known)) if known else 0


def told(figures: RunFigures) -> list[str]:
    """One line for each figure, with its target, and one for each worker."""
    growth, cells = figures.growth(), figures.profile.cells
    parts = {part: seconds for part, seconds in figures.profile.parts().items() if part not in _AROUND}
    share = f"{figures.share():.1%} (under {SHARE:.0%}: {_verdict(figures.share() < SHARE)})"
    lines = [
        f"pace: {figures.rate():.0f} cells a second (over {RATE:.0f}: {_verdict(figures.rate() > RATE)})",
        f"the harness's share of the time: {share}",
        "a cell: " + ", ".join(f"{part} {seconds / cells * 1e3:.2f} ms" for part, seconds in parts.items()),
    ]
    if growth is not None:
        lines.append(f"memory: grew by {growth:.1%} at most (under {GROWTH:.0%}: {_verdict(growth < GROWTH)})")
    for name, worker in figures.profile.workers.items():
        known = figures.memory.get(name)
        memory = f", {known[0]} MiB in its second tenth, {known[1]} at most" if known else ""
        lines.append(f"  {name}: {worker.cells} cells in {seconds_of(worker):.1f} s{memory}")
    return lines


def _verdict(holds: bool) -> str:
    return "ok" if holds else "short"


def main(run: Path) -> None:
    """Print the cost of a run of the matrix."""
    try:
        info, found = read_info(run), read_figures(run)
    except RunStoreError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    if found is None:
        typer.echo(
            f"{run} has no cell with a start time: it has schema version 1, or all records were carried over.", err=True
        )
        raise typer.Exit(2)
    typer.echo(f"{info.id}, tier {info.tier}, {info.cpus} cores, {info.platform}")
    for line in told(found):
        typer.echo(line)


if __name__ == "__main__":
    typer.run(main)
