"""Writes which cells of the default tier the smoke tier runs.

    python -m benchmarks.mutants.smoke

By itself the smoke tier would run each case of an operator in its first dtype, with static sizes, at one opset, and the
first case of a declaration at three. Most faults of an exporter hold in one dtype only, at some opsets, for dynamic
axes or empty tensors. So what each cell of the default tier runs is found out by exporting its program, as for faults
that are planted, and how long it takes is read from a run. Cells are chosen, always the one that adds most for its
time, until they do together all that the default tier does:

- run every statement of the exporter's lowerings, opset forms, passes and capture;
- run every statement of a lowering, of an opset form or of a rewrite under each condition that is met there: in each
  dtype, at the oldest and the newest opsets and between them, with static sizes and with dynamic ones, with sizes of
  0 and 1 (`conditions.py` has all of them); those of a lowering by a cell of its own family, whose values are made for
  it; and if there is time by cells of two cases, because the values of one may not tell;
- run every lowering in each dtype, and with dynamic axes, on inputs with NaN or infinities;
- ask a statement that compares the opset with a number at that opset and at the one before it, because the forms of
  operators change there;
- run every set of statements that a program runs of one file of lowerings, because a statement may be wrong only after
  some of the branches before it.

A case of the smoke tier that would not be run then is run at the one point where what it does is done by fewest others,
the quickest first, as long as there is time; further ones are left to the default tier. The cells are written to
`op_cases/smoke.toml`.
"""

from __future__ import annotations

import ast
import heapq
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from benchmarks.mutants.conditions import is_meeting
from benchmarks.mutants.costs import Costs, program_of
from benchmarks.mutants.reached import Reached
from benchmarks.mutants.scope import CONDITIONAL_AREAS, Scope, cells, files_of
from benchmarks.mutants.sites import statements
from onnx_parity.harness.axes import MIDDLE_OPSET, Breadth, Dtype, Selection, Shapes, Tier
from onnx_parity.harness.case import Case
from onnx_parity.harness.cases.declaration_checks import makers_in
from onnx_parity.harness.inputs import Maker
from onnx_parity.harness.matrix import named_cells
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.record import Record, Status
from onnx_parity.harness.store import read_records

HEAD = """\
# The cells of the smoke tier: by case, with the dtype and the opset of each. Together they run each statement of the
# exporter under each condition that the default tier runs it under. `python -m benchmarks.mutants.smoke` writes this
# file, and says how they are chosen. A case that is not named is run as in any project.
[cases]
"""
#: The files of lowerings, and those that the statements of a program's lowerings are in.
_OPERATORS, _LOWERING = "exporter/operators/", "exporter/lowering/"
#: Where statements are also run under each condition.
_CONDITIONAL = tuple(area.removesuffix("*") for area in CONDITIONAL_AREAS)
#: How long the cells may take, one after the other: two processes take half of it, and some seconds to start.
MOST = 96.0
#: Where no run says how long cells take: the first cell of a program takes twice as long as another one.
ALIKE = Costs()

#: The opsets at which a statement is to be run, by its place.
Turns = Mapping[str, Set[int]]


def turns_of(files: Mapping[str, Path]) -> Turns:
    """The statements of these files that compare an opset with numbers."""
    found: dict[str, set[int]] = {}
    for name, path in files.items():
        tree = ast.parse(path.read_text("utf-8"))
        lines = statements(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and _is_opset(node.left):
                numbers = {each.value for each in ast.walk(node.comparators[0]) if isinstance(each, ast.Constant)}
                at = {number - before for number in numbers if type(number) is int for before in (0, 1)}
                found.setdefault(f"{name}:{lines[node]}", set()).update(at)
    return found


def _is_opset(node: ast.expr) -> bool:
    return "opset" in (getattr(node, "attr", ""), getattr(node, "id", ""))


def chosen(
    reached: Reached,
    candidates: Mapping[str, Cell],
    turns: Turns,
    costs: Costs = ALIKE,
    most: float = math.inf,
) -> list[Cell]:
    """Cells that together do all that the candidates do; and, as long as all take less than so many seconds, do by two
    cases what is to be done twice, and run each case that the smoke tier would run by itself."""
    numbers: dict[Hashable, int] = {}
    # What cells do are the bits of a number.
    groups = [
        (bits, of_a_case)
        for does, members in _by_axes(reached, candidates, turns)
        for bits in [_bits([numbers.setdefault(each, len(numbers)) for each in does])]
        for of_a_case in _by_case(members)
    ]
    twice = _bits([number for does, number in numbers.items() if isinstance(does, str) and is_meeting(does)])
    taken = _Taken((-1, twice), costs)
    _take_all(groups, taken, 0, math.inf)
    _take_all(groups, taken, 1, most)
    does_of = {cell.id: does for does, members in groups for cell in members}
    run = {cell.case.label for cell in taken.cells}
    left: dict[str, list[Cell]] = {}
    for cell in candidates.values():
        if cell.case.label not in run and _is_of_smoke(cell.case):
            left.setdefault(cell.case.label, []).append(cell)
    for those in sorted(left.values(), key=lambda those: min(map(taken.cost, those))):
        rarest = min(those, key=lambda cell: (-taken.done_once(does_of.get(cell.id, 0)), _order(cell)))
        if taken.seconds + taken.cost(rarest) <= most:
            taken.take(does_of.get(rarest.id, 0), rarest)
    return taken.cells


def judged_of(cells: Mapping[str, Cell], records: Iterable[Record]) -> dict[str, Cell]:
    """The cells without those that were absent from a run: what torch cannot compute is exported, and not compared."""
    absent = {record.cell for record in records if record.status is Status.ABSENT}
    return {name: cell for name, cell in cells.items() if name not in absent}


def _take_all(groups: Sequence[tuple[int, Sequence[Cell]]], taken: _Taken, times: int, most: float) -> None:
    """Take cells until all that is wanted has been done by more than so many cases, or for so many seconds."""
    # The one that adds most comes first, and what it adds can only have become less since it was put there, unless the
    # program of a cell has been captured for another since.
    heap = [(-taken.gain(does, members, times), number) for number, (does, members) in enumerate(groups)]
    heapq.heapify(heap)
    while heap and taken.seconds < most:
        before, number = heapq.heappop(heap)
        does, members = groups[number]
        now = taken.gain(does, members, times)
        if now and now >= -before:
            taken.take(does, taken.quickest(members))
        elif now:
            heapq.heappush(heap, (-now, number))


class _Taken:
    """Cells that have been chosen, and what they do."""

    def __init__(self, wanted: tuple[int, int], costs: Costs) -> None:
        self.cells: list[Cell] = []
        #: How long all of them take.
        self.seconds = 0.0
        self._wanted, self._costs = wanted, costs
        #: What at least one case does, and what at least two do.
        self._done = [0, 0]
        #: What each case was the first to do.
        self._first: dict[str, int] = {}
        self._programs: set[Hashable] = set()
        self._ids: set[str] = set()

    def gain(self, does: int, members: Sequence[Cell], times: int) -> float:
        """How much that is wanted, and that no more than so many cases do, is done by each of these cells of a case for
        its time."""
        others = does & ~self._first.get(members[0].case.label, 0) if times else does
        new = (others & self._wanted[times] & ~self._done[times]).bit_count()
        costs = [self.cost(cell) for cell in members if cell.id not in self._ids] if new else []
        return new / min(costs) if costs else 0.0

    def done_once(self, does: int) -> int:
        """How much of this no more than one case does."""
        return (does & ~self._done[1]).bit_count()

    def quickest(self, cells: Iterable[Cell]) -> Cell:
        left = (cell for cell in cells if cell.id not in self._ids)
        return min(left, key=lambda cell: (self.cost(cell), _order(cell)))

    def take(self, does: int, cell: Cell) -> None:
        self.seconds += self.cost(cell)
        self.cells.append(cell)
        self._ids.add(cell.id)
        self._programs.add(program_of(cell))
        label = cell.case.label
        first = self._first.get(label, 0)
        self._done[1] |= self._done[0] & does & ~first
        self._first[label] = first | (does & ~self._done[0])
        self._done[0] |= does

    def cost(self, cell: Cell) -> float:
        """How many seconds it adds."""
        captures = program_of(cell) not in self._programs
        return self._costs.of_cell(cell) + (self._costs.of_program(cell) if captures else 0.0)


def _bits(numbers: Sequence[int]) -> int:
    """The number that has these bits; adding them one by one takes minutes for all cells."""
    found = bytearray(max(numbers, default=0) // 8 + 1)
    for number in numbers:
        found[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(found, "little")


def _is_of_smoke(case: Case) -> bool:
    """Whether the smoke tier runs a case that `smoke.toml` does not name."""
    tier = Selection(tier=Tier.SMOKE)
    return case.declaration.tier is Tier.SMOKE and bool(case.declaration.opsets(tier, Breadth.TURNING, 0))


def _by_case(cells: Iterable[Cell]) -> Iterable[list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.case.label, []).append(cell)
    return found.values()


def _by_axes(
    reached: Reached, candidates: Mapping[str, Cell], turns: Turns
) -> Iterator[tuple[Set[Hashable], list[Cell]]]:
    """What cells do, with those that do just this."""
    for ran, members in reached.groups():
        by_axes: dict[tuple[int, Shapes, Dtype, bool, str], list[Cell]] = {}
        for cell in (candidates[each] for each in members if each in candidates):
            axes = (cell.opset, cell.shapes, cell.dtype, _has_special(cell.case), cell.case.family)
            by_axes.setdefault(axes, []).append(cell)
        plain = [each for each in ran if not is_meeting(each)]
        under_conditions = {each for each in ran if is_meeting(each) and each.startswith(_CONDITIONAL)}
        for (opset, shapes, dtype, has_special, family), cells_there in by_axes.items():
            does: set[Hashable] = {*plain, *under_conditions, *_branches(plain)}
            does |= {(each, "own") for each in (*plain, *under_conditions) if family in _families_of(each)}
            does |= {(each, opset) for each in plain if opset in turns.get(each, ())}
            does |= {(each, shapes) for each in plain if each.startswith((_OPERATORS, _LOWERING))}
            if has_special:
                lowered = [each for each in plain if each.startswith(_OPERATORS)]
                does |= {(each, axis, "special") for each in lowered for axis in (dtype, shapes)}
            yield does, cells_there


def _families_of(statement: str) -> Set[str]:
    """The files of declarations that have the cases of a lowering's family; none of a statement elsewhere."""
    after = statement.removeprefix(_OPERATORS)
    return files_of(after.partition("/")[0]) if after != statement else frozenset()


@cache
def _has_special(case: Case) -> bool:
    """Whether there are NaN or infinities among the inputs of a case."""
    inputs = (
        *makers_in(case.declaration.inputs),
        *(each for each in case.arguments.values() if isinstance(each, Maker)),
    )
    return any(each.has_special for each in inputs)


def _branches(ran: Iterable[str]) -> Iterator[frozenset[str]]:
    """The sets of statements that are run of each file of lowerings."""
    by_file: dict[str, list[str]] = {}
    for statement in ran:
        if statement.startswith(_OPERATORS):
            by_file.setdefault(statement.rpartition(":")[0], []).append(statement)
    return map(frozenset, by_file.values())


def _order(cell: Cell) -> tuple[bool, int, str]:
    """Among cells that add as much, one at the opset of the smoke tier with a short id comes first."""
    return cell.opset != MIDDLE_OPSET, len(cell.id), cell.id


def text(head: str, chosen_cells: Iterable[Cell], left_out: Iterable[str] = ()) -> str:
    """A file that names these cells, and cases of which it names none."""
    by_case: dict[str, list[Cell]] = {label: [] for label in left_out}
    for cell in chosen_cells:
        by_case.setdefault(cell.case.label, []).append(cell)
    lines = (
        f"{_quoted(label)} = {_quoted(' '.join(sorted(map(_point, by_case[label]))))}\n" for label in sorted(by_case)
    )
    return head + "".join(lines)


def _point(cell: Cell) -> str:
    return named_cells.point_of(cell.dtype, cell.opset, cell.shapes)


def _quoted(line: str) -> str:
    """As a string of TOML; labels contain no control characters."""
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main(
    folder: Annotated[str, typer.Argument(help="The folder of declarations.")] = "op_cases",
    processes: Annotated[int, typer.Option("-n", min=1, help="Processes at a time.")] = 1,
    run: Annotated[
        Path, typer.Option(help="A run of the default tier, which says how long cells take.", show_default="runs/last")
    ] = Path("runs/last"),
    seconds: Annotated[float, typer.Option(min=0, help="How long all cells may take, one after the other.")] = MOST,
) -> None:
    """Write the cells that the smoke tier runs, and which cases it leaves to the default tier."""
    terminal, only = Console(stderr=True), (f"{folder}/*/*",)
    by_file = cells(Tier.DEFAULT, only, costly=True)
    before = sum(map(len, cells(Tier.SMOKE, only).values()))
    scope = Scope.of(by_file)
    with Progress(console=terminal, transient=True) as progress, ThreadPoolExecutor(processes) as pool:
        reached = scope.reached(pool, progress, terminal, with_conditions=True)
    records = list(read_records(run))
    costs = Costs.of(records, scope.cells)
    found = chosen(reached, judged_of(scope.cells, records), turns_of(scope.files), costs, seconds)
    own = {cell.case.label for cell in scope.cells.values() if _is_of_smoke(cell.case)}
    left_out = own - {cell.case.label for cell in found}
    path = Path(folder) / named_cells.SMOKE
    path.write_text(text(HEAD, found, left_out), "utf-8")
    took = f"{costs.of_all(found):.0f} s of {costs.of_all(scope.cells.values()):.0f} s"
    terminal.print(
        f"{path}: {len(found)} cells instead of {before}, {took}; {len(left_out)} cases are left to the default tier"
    )


if __name__ == "__main__":
    typer.run(main)
