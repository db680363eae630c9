"""Which cells are given to which worker, and what becomes of cells whose worker is lost.

Cells that share a capture are a group. Neighbouring groups are put together to units of about `UNIT` seconds, and the
longest unit is given first. Towards the end units become smaller, and a worker that would be the last one gives some
of its cells back: no node waits for one long unit.

A cell whose worker was lost is given to another one. After `SUSPECT` losses it is given alone, so that a cell which
takes its worker with it harms no others; after `LOST_FOR_GOOD` it is given up, and this is its outcome.

Nothing here knows Ray or the time: `benchmarks.cluster` drives the same code with simulated clusters.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from onnx_parity.harness.cluster.messages import CellWork

#: Seconds of work that are given to a worker at a time, and the least at the end of a run.
UNIT, LEAST = 20.0, 1.0
#: A worker that has less than this left is not asked to give cells back.
_WORTH_SPLITTING = 2.0
SUSPECT, LOST_FOR_GOOD = 2, 4


@dataclass(slots=True)
class Unit:
    """Cells that are given together, group by group."""

    groups: list[list[CellWork]]
    seconds: float
    memory: int
    cuda: bool

    @classmethod
    def of(cls, groups: list[list[CellWork]]) -> Unit:
        cells = [cell for group in groups for cell in group]
        return cls(groups, sum(cell.seconds for cell in cells), max(cell.memory for cell in cells), cells[0].cuda)

    @property
    def cells(self) -> Iterator[CellWork]:
        return itertools.chain.from_iterable(self.groups)

    def cut(self, seconds: float) -> tuple[Unit, Unit | None]:
        """The beginning of the unit, of about so many seconds, and the rest. A group that is longer is cut too."""
        taken: list[list[CellWork]] = []
        spent = 0.0
        for number, group in enumerate(self.groups):
            for position, cell in enumerate(group):
                own = sum(each.seconds for each in group) if position == 0 else 0.0
                if position == 0 and own <= 2 * seconds:
                    # The group stays whole, because its cells share a capture.
                    if taken and spent + own > seconds:
                        return Unit.of(taken), Unit.of(self.groups[number:])
                    taken.append(group)
                    spent += own
                    break
                if spent and spent + cell.seconds > seconds:
                    rest = [group[position:], *self.groups[number + 1 :]]
                    return Unit.of([*taken, group[:position]] if position else taken), Unit.of(rest)
                spent += cell.seconds
            else:
                taken.append(group)
        return self, None


@dataclass(slots=True)
class _Holding:
    """The cells that a worker has been given and has not reported, in the order in which it runs them."""

    cells: dict[str, CellWork] = field(default_factory=dict)
    seconds: float = 0.0
    #: Whether it was asked to give cells back, and has not answered.
    asked: bool = False

    def without(self, nodeid: str) -> CellWork:
        cell = self.cells.pop(nodeid)
        self.seconds = self.seconds - cell.seconds if self.cells else 0.0
        return cell


class Schedule:
    """The cells of a run that have no record yet: waiting, or given to a worker."""

    def __init__(self, cells: Iterable[CellWork], unit: float = UNIT) -> None:
        self._unit = unit
        self._holdings: defaultdict[str, _Holding] = defaultdict(_Holding)
        self._losses: defaultdict[str, int] = defaultdict(int)
        #: Units that wait, the longest first, apart for CUDA.
        self._waiting: dict[bool, list[tuple[float, int, Unit]]] = {False: [], True: []}
        self._numbers = itertools.count()
        #: The seconds of all cells that wait.
        self._seconds = 0.0
        #: How many cells have no record.
        self.left = 0
        groups = [list(group) for _, group in itertools.groupby(cells, key=lambda cell: (cell.cuda, cell.group))]
        self.left = sum(map(len, groups))
        self._wait(groups)

    def take(self, worker: str, *, workers: int, cuda: bool = False, memory: int | None = None) -> list[CellWork]:
        """The cells that a worker runs next; none if no unit waits that it can run.

        `cuda` says whether it may use a GPU, `memory` how many MiB a cell may take there. There are so many workers.
        """
        # As much as each of the others gets of what is left, and half of it, because estimates are rough.
        fair = self._seconds / (2 * max(workers, 1))
        unit = None
        for kind in (True, False) if cuda else (False,):
            unit = unit or self._longest(kind, memory)
        if unit is None:
            return []
        share = max(LEAST, fair)
        rest = None
        if unit.seconds > 2 * share:
            unit, rest = unit.cut(share)
        if rest is not None:
            self._push(rest)
        holding = self._holdings[worker]
        cells = list(unit.cells)
        holding.cells.update((cell.nodeid, cell) for cell in cells)
        holding.seconds += unit.seconds
        holding.asked = False
        return cells

    def left_of(self, worker: str) -> float:
        """The seconds that the worker needs for the cells that it has."""
        return self._holdings[worker].seconds

    def memory_of(self, worker: str) -> int:
        """The MiB that one of its cells may take."""
        return max((cell.memory for cell in self._holdings[worker].cells.values()), default=0)

    @property
    def waits(self) -> bool:
        """Whether cells wait for a worker."""
        return any(self._waiting.values())

    def record(self, worker: str, nodeid: str) -> bool:
        """A worker has a record of a cell. Whether this is the record of the cell: others do not count."""
        holding = self._holdings.get(worker)
        if holding is None or nodeid not in holding.cells:
            return False
        holding.without(nodeid)
        self.left -= 1
        return True

    def to_split(self, *, idle: int) -> list[tuple[str, int]]:
        """Workers that have to give back so many of their last cells, for so many workers that have none."""
        found = []
        if not self.waits and idle > 0:
            busiest = heapq.nlargest(idle, self._holdings.items(), key=lambda item: item[1].seconds)
            for worker, holding in busiest:
                if holding.asked or holding.seconds < _WORTH_SPLITTING or len(holding.cells) < 3:
                    continue
                spared, number = 0.0, 0
                for cell in reversed(holding.cells.values()):
                    spared += cell.seconds
                    if spared > holding.seconds / 2:
                        break
                    number += 1
                if number:
                    holding.asked = True
                    found.append((worker, number))
        return found

    def take_back(self, worker: str, nodeids: Sequence[str]) -> None:
        """A worker will not run these cells."""
        holding = self._holdings[worker]
        holding.asked = False
        self._again([holding.without(nodeid) for nodeid in nodeids if nodeid in holding.cells])

    def lost(self, worker: str, *, by_cells: bool = True) -> list[str]:
        """A worker is lost. Its cells wait again, but for those that are given up, which are returned. `by_cells` says
        whether one of them may be to blame.
        """
        holding = self._holdings.pop(worker, None)
        if holding is None:
            return []
        alone = len(holding.cells) == 1
        again, gone = [], []
        for cell in holding.cells.values():
            self._losses[cell.nodeid] += by_cells
            if alone and self._losses[cell.nodeid] >= LOST_FOR_GOOD:
                gone.append(cell.nodeid)
            else:
                again.append(cell)
        self.left -= len(gone)
        self._again(again)
        return gone

    def _again(self, cells: Sequence[CellWork]) -> None:
        suspects = [cell for cell in cells if self._losses[cell.nodeid] >= SUSPECT]
        for cell in suspects:
            self._push(Unit.of([[cell]]))
        others = [cell for cell in cells if self._losses[cell.nodeid] < SUSPECT]
        self._wait([list(group) for _, group in itertools.groupby(others, key=lambda cell: (cell.cuda, cell.group))])

    def _wait(self, groups: Iterable[list[CellWork]]) -> None:
        """Put neighbouring groups together."""
        gathered: dict[bool, list[list[CellWork]]] = {False: [], True: []}
        spent = {False: 0.0, True: 0.0}
        for group in groups:
            kind, seconds = group[0].cuda, sum(cell.seconds for cell in group)
            if gathered[kind] and spent[kind] + seconds > self._unit:
                self._push(Unit.of(gathered[kind]))
                gathered[kind], spent[kind] = [], 0.0
            gathered[kind].append(group)
            spent[kind] += seconds
        for rest in gathered.values():
            if rest:
                self._push(Unit.of(rest))

    def _push(self, unit: Unit) -> None:
        heapq.heappush(self._waiting[unit.cuda], (-unit.seconds, next(self._numbers), unit))
        self._seconds += unit.seconds

    def _longest(self, cuda: bool, memory: int | None) -> Unit | None:
        """The longest unit that fits into the memory."""
        too_large = []
        found = None
        waiting = self._waiting[cuda]
        while waiting and found is None:
            entry = heapq.heappop(waiting)
            if memory is not None and entry[2].memory > memory:
                too_large.append(entry)
            else:
                found = entry[2]
        for entry in too_large:
            heapq.heappush(waiting, entry)
        if found is not None:
            self._seconds = self._seconds - found.seconds if any(self._waiting.values()) else 0.0
        return found
