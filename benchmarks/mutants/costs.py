"""How long cells take, by an earlier run that had them: the capture of a program, and each of its cells besides."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.record import Record, Stage

__all__ = ["Costs", "program_of"]

#: Seconds that pytest and messages between processes take for a cell, which no record has.
_BESIDES = 0.005
#: Of a program's only cell, the share of its capture and its reference.
_OF_CAPTURE = 2 / 3


def program_of(cell: Cell) -> Hashable:
    """What cells have in common that share a capture."""
    return cell.case.label, cell.dtype, cell.shapes


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of cells and of programs. A cell that no run had takes as long as most do."""

    cells: Mapping[str, float] = field(default_factory=dict)
    programs: Mapping[Hashable, float] = field(default_factory=dict)
    of_a_cell: float = 1.0
    of_a_program: float = 1.0

    @classmethod
    def of(cls, records: Iterable[Record], candidates: Mapping[str, Cell]) -> Costs:
        by_program: dict[Hashable, list[tuple[float, str]]] = {}
        for record in records:
            if record.cell in candidates:
                # Whichever program is built first imports what it and others need.
                took = record.elapsed - record.seconds.get(Stage.BUILD, 0.0)
                by_program.setdefault(program_of(candidates[record.cell]), []).append((took, record.cell))
        cells, programs = dict[str, float](), dict[Hashable, float]()
        for program, times in by_program.items():
            longest, first = max(times)
            others = [seconds for seconds, cell in times if cell != first]
            # One of them captured the program for all.
            alone = median(others) if others else longest * (1 - _OF_CAPTURE)
            programs[program] = longest - alone
            cells |= {cell: _BESIDES + (alone if cell == first else seconds) for seconds, cell in times}
        if not cells:
            return cls()
        return cls(cells, programs, median(cells.values()), median(programs.values()))

    def of_all(self, cells: Iterable[Cell]) -> float:
        """How long they take one after the other."""
        each, programs = 0.0, dict[Hashable, float]()
        for cell in cells:
            each += self.of_cell(cell)
            programs[program_of(cell)] = self.of_program(cell)
        return each + sum(programs.values())

    def of_cell(self, cell: Cell) -> float:
        return self.cells.get(cell.id, self.of_a_cell)

    def of_program(self, cell: Cell) -> float:
        return self.programs.get(program_of(cell), self.of_a_program)
