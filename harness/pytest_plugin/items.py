"""What pytest collects of declarations: a collector for each, and an item for each cell."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pluggy
import pytest

from onnx_parity.harness.axes import Selection, Tier
from onnx_parity.harness.case import Declaration, DeclarationError
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.matrix.lookup import cell_of
from onnx_parity.harness.matrix.shards import group_of
from onnx_parity.harness.pytest_plugin.cell_report import CellReport, report_of
from onnx_parity.harness.pytest_plugin.small_item import SmallItem
from onnx_parity.harness.record import Record
from onnx_parity.harness.results.content import lines_of


class CellRunner(Protocol):
    """The part of the plug-in that the items use."""

    @property
    def selection(self) -> Selection: ...

    @property
    def strict_unsupported(self) -> bool: ...

    def claim(self, name: str, place: str) -> str:
        """Register a declaration, and return the place of the first declaration with this name."""

    def run(self, item: CellItem, ahead: CellItem | None) -> Record: ...


class DeclarationCollector(pytest.Collector):
    """A declaration such as `elu = op(...)`, collected as its cells in the current selection."""

    def __init__(self, *, declaration: Declaration, runner: CellRunner, **node: Any) -> None:
        super().__init__(**node)
        self._declaration = declaration
        self._runner = runner

    def collect(self) -> Iterator[CellItem]:
        place = self._declaration.place
        first = self._runner.claim(self.name, place)
        # The id of a cell identifies it in the run store, so names must be unique.
        if first != place:
            raise self.CollectError(f"{self.name} is declared twice, at {first} and {place}. Rename one of them.")
        lines = lines_of(self.path, self.name)
        if len(lines) > 1:
            # Only the last assignment is collected.
            at = " and ".join(f"{self.path}:{line}" for line in lines)
            raise self.CollectError(f"{self.name} is declared twice, at {at}. Rename one of them.")
        file = os.path.relpath(self.path, self.config.rootpath)
        try:
            for cell in self._cells():
                yield CellItem.from_parent(self, name=cell.id, cell=cell, runner=self._runner, file=file)
        except DeclarationError as error:
            raise self.CollectError(str(error)) from error

    def _cells(self) -> Iterator[Cell]:
        """The cells of the selection, and those that the command line names: an id says all that a cell is."""
        seen = set()
        for cell in cells_of(self.name, self._declaration, self._runner.selection):
            seen.add(cell.id)
            yield cell
        for named in dict.fromkeys(self._named_cells()):
            if named not in seen:
                found = cell_of(named, self.name, self._declaration)
                yield from () if found is None else (found,)

    def _named_cells(self) -> Iterator[str]:
        for argument in self.config.args:
            # An id may hold brackets, and what stands in them may hold anything.
            before, bracket, rest = argument.partition("[")
            _, *names = before.split("::")
            if len(names) == 2 and names[0] == self.name:
                yield f"{names[1]}{bracket}{rest}"


class CellItem(SmallItem):
    """One cell. It has no fixtures, no setup and no teardown: `report` runs it and makes its only report.

    pytest's own protocol makes three reports for each test. Under xdist they take 0.8 ms of processor time, as long as
    many a cell.
    """

    def __init__(self, *, cell: Cell, runner: CellRunner, file: str, **node: Any) -> None:
        super().__init__(**node)
        self.cell = cell
        self._runner = runner
        self._file = file

    @property
    def ihook(self) -> pluggy.HookRelay:
        """The hooks of every `conftest.py`. Selecting those that apply to the file would take 0.05 ms per cell."""
        hooks: pluggy.HookRelay = self.config.hook
        return hooks

    @property
    def group(self) -> str:
        """The name of the group of cells that share work with this one: those of its case and dtype."""
        return group_of(self.cell.case.label, self.cell.dtype)

    def is_in_tier(self, tier: Tier) -> bool:
        """Whether the tier has this cell, if no option changes what the tier runs."""
        case = self.cell.case
        assert self.parent is not None
        cells = cells_of(self.parent.name, case.declaration, Selection(tier=tier), case.label.__eq__)
        return any(each.id == self.cell.id for each in cells)

    @property
    def location(self) -> tuple[str, int, str]:
        """The location that pytest would compute from `reportinfo`, without resolving paths for every cell."""
        # Not the id: if the node id ends with the description, pytest replaces dots in it.
        return self._file, self.cell.case.declaration.line - 1, f"{self.cell.case.label}  opset {self.cell.opset}"

    def reportinfo(self) -> tuple[Path, int, str]:
        _, line, described = self.location
        return self.path, line, described

    def runtest(self) -> None:
        raise NotImplementedError(
            "A cell cannot be run by another plug-in: pytest_runtest_protocol of "
            "onnx_parity.harness.pytest_plugin.plugin runs it, and was not called. "
            "Disable the plug-in that replaces it."
        )

    def report(self, following: pytest.Item | None) -> CellReport:
        """Run the cell and return its report. If the next item is a cell, it may begin before this returns."""
        start = time.time()
        # With --maxfail, nothing may run after a failure, so the next cell must not begin early.
        stops = bool(self.config.getoption("maxfail"))
        record = self._runner.run(self, following if isinstance(following, CellItem) and not stops else None)
        return report_of(self, record, start, time.time(), strict_unsupported=self._runner.strict_unsupported)
