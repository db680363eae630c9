"""What the programs of cells tell: the alterations of their operators that `parity sensitivity` knows, by dtype."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set

from benchmarks.mutants.costs import Costs, program_of
from onnx_parity.harness.axes import MIDDLE_OPSET, Shapes
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.record import Kind
from onnx_parity.harness.sensitivity.looking import NotLookedAt, look_at_all

__all__ = ["Told", "told_by", "told_by_these_alone"]

#: By program, what it tells: an alteration, in a dtype.
Told = Mapping[Hashable, Set[Hashable]]


def told_by(cells: Iterable[Cell], seed: int, processes: int, advance: Callable[[], None]) -> Told:
    """What each program of these cells tells; nothing if it is a model's, or cannot be asked."""
    programs = {program_of(cell): cell for cell in cells if cell.case.declaration.kind is Kind.OPERATOR}
    looked = look_at_all(
        [(cell, cell.shapes is Shapes.DYNAMIC) for cell in programs.values()], seed, processes, advance
    )
    return {
        program: frozenset((alteration, each.dtype) for alteration, tells in each.told if tells)
        for program, each in zip(programs, looked, strict=True)
        if not isinstance(each, NotLookedAt)
    }


def told_by_these_alone(others: Iterable[Cell], stay: Iterable[Cell], told: Told, costs: Costs) -> Iterator[Cell]:
    """What programs of other cells tell, and none of those that stay: a cell of each that is needed for all of it.
    Those that tell most for their time come first."""
    left = set[Hashable]().union(*told.values())
    left -= set[Hashable]().union(*(told.get(program, ()) for program in map(program_of, stay)))
    cells: dict[Hashable, Cell] = {}
    for cell in sorted(others, key=lambda cell: cell.opset != MIDDLE_OPSET):
        if not left.isdisjoint(told.get(program_of(cell), ())):
            cells.setdefault(program_of(cell), cell)
    seconds = {program: costs.of_all([cell]) for program, cell in cells.items()}
    while left:
        best = max(seconds, key=lambda program: len(told[program] & left) / seconds[program])
        left -= told[best]
        yield cells[best]
