"""Where the time of a run went, by stage and by worker, from the records of its cells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from onnx_parity.harness.record import Record, RunInfo, Stage

__all__ = ["Profile", "WorkerTime", "describe_profile", "profile_of"]


class WorkerTime(msgspec.Struct, frozen=True):
    """One worker: how many cells it ran, and how it spent the seconds of the run."""

    cells: int
    #: In the stages of its cells.
    stages: dict[Stage, float]
    #: In its cells, within stages or not.
    in_cells: float
    #: From its first cell to the end of its last, in none of them: reports to pytest, and waiting for a cell.
    between: float
    #: From the start of the run to its first cell: imports and collection.
    before: float
    #: From the end of its last cell to that of the run's last: it has nothing to do any more.
    after: float


class Profile(msgspec.Struct, frozen=True):
    workers: dict[str, WorkerTime]

    @property
    def cells(self) -> int:
        return sum(each.cells for each in self.workers.values())

    def parts(self) -> dict[str, float]:
        """The seconds of all workers together, by stage, and outside of the stages."""
        workers = self.workers.values()
        in_stages = {stage.value: sum(each.stages.get(stage, 0.0) for each in workers) for stage in Stage}
        in_cells = sum(each.in_cells for each in workers)
        return {
            **in_stages,
            "around the stages": in_cells - sum(in_stages.values()),
            "between cells": sum(each.between for each in workers),
            "before the first cell": sum(each.before for each in workers),
            "after the last cell": sum(each.after for each in workers),
        }


def profile_of(info: RunInfo, records: Iterable[Record]) -> Profile | None:
    """None if no record says when its cell ran: all were carried over, or are of an old version."""
    started = datetime.fromisoformat(info.started).timestamp()
    cells: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.began and not record.carried:
            cells[record.worker].append(record)
    ended = max((_end(record) for each in cells.values() for record in each), default=0.0)
    workers = {worker: _time(each, started, ended) for worker, each in sorted(cells.items())}
    return Profile(workers) if workers else None


def _end(record: Record) -> float:
    return record.began + record.elapsed


def _time(cells: Sequence[Record], started: float, ended: float) -> WorkerTime:
    first, last = min(cell.began for cell in cells), max(map(_end, cells))
    in_cells = sum(cell.elapsed for cell in cells)
    return WorkerTime(
        cells=len(cells),
        stages={stage: sum(cell.seconds.get(stage, 0.0) for cell in cells) for stage in Stage},
        in_cells=in_cells,
        between=max(last - first - in_cells, 0.0),
        # The start of a run is kept in whole seconds.
        before=max(first - started, 0.0),
        after=ended - last,
    )


def describe_profile(profile: Profile) -> Iterator[str]:
    """The lines of two tables: the parts of the time of all workers, and the time of each worker."""
    parts = {part: seconds for part, seconds in profile.parts().items() if seconds}
    whole = sum(parts.values())
    yield f"{'part':<22}{'seconds':>10}{'share':>8}{'ms per cell':>13}"
    for part, seconds in parts.items():
        yield f"{part:<22}{seconds:>10.1f}{seconds / whole:>8.1%}{seconds / profile.cells * 1e3:>13.2f}"
    yield ""
    yield f"{'worker':<22}{'cells':>10}{'in cells':>10}{'between':>9}{'before':>8}{'after':>7}"
    for name, each in profile.workers.items():
        yield (
            f"{name:<22}{each.cells:>10}{each.in_cells:>8.1f} s{each.between:>7.1f} s{each.before:>6.1f} s"
            f"{each.after:>5.1f} s"
        )
