"""What cells are expected to take, from the records of an earlier run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from onnx_parity.harness.record import Kind
from onnx_parity.harness.store import read_columns, read_lines

#: Seconds of a cell of which nothing is known.
_OF_AN_OPERATOR, _OF_A_MODEL = 0.02, 1.0


@dataclass(frozen=True)
class Estimates:
    """Seconds and MiB of cells. A cell that was not run is expected to be like others of its declaration."""

    of_cells: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    of_names: Mapping[str, tuple[float, int]] = field(default_factory=dict)

    def of(self, cell: str, name: str, kind: Kind) -> tuple[float, int]:
        known = self.of_cells.get(cell) or self.of_names.get(name)
        return known or (_OF_A_MODEL if kind is Kind.MODEL else _OF_AN_OPERATOR, 0)


def estimates_from(run: Path) -> Estimates:
    """What the cells of a run took. A run that cannot be read raises `RunStoreError`."""
    columns = read_columns(run)
    if columns is None:
        records = read_lines(run)
        return _estimates(
            (each.cell, each.name, each.elapsed or sum(each.seconds.values()), each.memory) for each in records
        )
    wanted = (columns.values(name).each() for name in ("cell", "name", "elapsed", "memory"))
    return _estimates(zip(*wanted, strict=True))


def _estimates(rows: Iterable[tuple[str, str, float, int]]) -> Estimates:
    of_cells = {}
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    memory: defaultdict[str, int] = defaultdict(int)
    for cell, name, took, held in rows:
        of_cells[cell] = (took, held)
        seconds[name].append(took)
        memory[name] = max(memory[name], held)
    return Estimates(of_cells, {name: (fmean(each), memory[name]) for name, each in seconds.items()})
