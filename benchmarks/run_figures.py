"""The cost of a run of the matrix, from its records: speed, the harness's share of the time, memory of its workers.

parity run --tier full --opsets 7-26 --devices cpu -n 2
python -m benchmarks.run_figures runs/last
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import msgspec
import typer

from onnx_parity.harness.record import Record, Stage
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import read_info, read_records

#: Targets for a run of the full matrix on two cores.
RATE, SHARE, GROWTH = 150.0, 0.2, 0.25

#: Workers with fewer cells are not used for memory, because they have not yet imported all that most runs need.
_ENOUGH_CELLS = 200


class WorkerFigures(msgspec.Struct, frozen=True):
    """One worker: its cells, and the time from the beginning of its first to the end of its last."""

    cells: int
    seconds: float
    #: The seconds of torch, the exporter, onnx and the runtime, and of comparing outputs.
    of_stages: dict[Stage, float]
    #: The seconds in the process of the cells, within stages or not.
    in_cells: float
    #: Median memory in MiB: of the second tenth of its cells, when all is imported, and the largest of a later tenth.
    memory: tuple[int, int] | None


class RunFigures(msgspec.Struct, frozen=True):
    workers: dict[str, WorkerFigures]

    def rate(self) -> float:
        """Cells per second while cells ran, without the imports and collection before and the summary after."""
        return sum(each.cells for each in self.workers.values()) / max(each.seconds for each in self.workers.values())

    def share(self) -> float:
        """The share of the workers' time outside of the stages, which is the cost of the harness."""
        whole = sum(each.seconds for each in self.workers.values())
        return 1 - sum(sum(each.of_stages.values()) for each in self.workers.values()) / whole

    def parts(self) -> dict[str, float]:
        """The seconds of a mean cell, by stage, and outside of the stages."""
        workers = list(self.workers.values())
        cells = sum(each.cells for each in workers)
        parts = {stage.value: sum(each.of_stages[stage] for each in workers) / cells for stage in Stage}
        in_cells = sum(each.in_cells for each in workers) / cells
        whole = sum(each.seconds for each in workers) / cells
        return {**parts, "around the stages": in_cells - sum(parts.values()), "between cells": whole - in_cells}

    def growth(self) -> float | None:
        """The largest growth of a worker's memory, as a share; None if no worker had enough cells to measure it."""
        grown = [last / first - 1 for each in self.workers.values() if each.memory for first, last in [each.memory]]
        return max(grown, default=None)


def read_figures(run: Path) -> RunFigures | None:
    """The figures of a run; None if no record has the time of its cell."""
    return figures(read_records(run))


def figures(records: Iterable[Record]) -> RunFigures | None:
    workers: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.began and not record.carried:
            workers[record.worker].append(record)
    measured = {worker: _of_worker(sorted(cells, key=lambda cell: cell.began)) for worker, cells in workers.items()}
    return RunFigures(measured) if measured else None


def _of_worker(cells: list[Record]) -> WorkerFigures:
    memory = None
    if len(cells) >= _ENOUGH_CELLS:
        bounds = [len(cells) * tenths // 10 for tenths in range(11)]
        _, second, *later = [_memory(cells[start:end]) for start, end in itertools.pairwise(bounds)]
        memory = (second, max(later))
    return WorkerFigures(
        cells=len(cells),
        seconds=cells[-1].began + cells[-1].elapsed - cells[0].began,
        of_stages={stage: sum(cell.seconds.get(stage, 0.0) for cell in cells) for stage in Stage},
        in_cells=sum(cell.elapsed for cell in cells),
        memory=memory if memory and all(memory) else None,
    )


def _memory(cells: list[Record]) -> int:
    """The median memory of those processes that did not die in a cell, since a dead process reports no memory."""
    known = [cell.memory for cell in cells if cell.memory]
    return round(median(known)) if known else 0


def told(figures: RunFigures) -> list[str]:
    """One line for each figure, with its target, and one for each worker."""
    growth = figures.growth()
    share = f"{figures.share():.1%} (under {SHARE:.0%}: {_verdict(figures.share() < SHARE)})"
    lines = [
        f"pace: {figures.rate():.0f} cells a second (over {RATE:.0f}: {_verdict(figures.rate() > RATE)})",
        f"the harness's share of the time: {share}",
        "a cell: " + ", ".join(f"{part} {seconds * 1e3:.2f} ms" for part, seconds in figures.parts().items()),
    ]
    if growth is not None:
        lines.append(f"memory: grew by {growth:.1%} at most (under {GROWTH:.0%}: {_verdict(growth < GROWTH)})")
    for name, worker in sorted(figures.workers.items()):
        memory = f", {worker.memory[0]} MiB in its second tenth, {worker.memory[1]} at most" if worker.memory else ""
        lines.append(f"  {name}: {worker.cells} cells in {worker.seconds:.1f} s{memory}")
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
