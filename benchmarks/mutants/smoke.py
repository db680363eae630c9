"""Writes which cells of the default tier the smoke tier runs as well: those without which it would leave out code.

    python -m benchmarks.mutants.smoke

The smoke tier runs each case of an operator in one dtype, at one opset. What statements of the exporter's lowerings,
opset forms, passes and capture it leaves out that the default tier runs is found out by exporting the programs of all
cells, as for faults that are planted. Then cells are added, always the one that runs most of what is missing, until
nothing is missing. They are written to `op_cases/smoke.toml`.

As far as the default tier does so, it is also to run

- a statement that compares the opset with a number at that opset and at the one before it, because the forms of
  operators change there;
- every statement of a lowering with static sizes and with dynamic ones, because what it is given then are numbers or
  values of the model, and other forms of operators are chosen;
- every set of statements that a program runs of one file of lowerings, because a statement may be wrong only after
  some of the branches before it.
"""

from __future__ import annotations

import ast
import heapq
from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from benchmarks.mutants.reached import Reached
from benchmarks.mutants.scope import Scope, cells
from benchmarks.mutants.sites import statements
from onnx_parity.harness.axes import MIDDLE_OPSET, Selection, Shapes, Tier
from onnx_parity.harness.matrix import smoke_cells
from onnx_parity.harness.matrix.cells import Cell

_HEAD = """\
# Cells that the smoke tier runs besides its own, so that it runs every statement of the exporter that the default tier
# runs, those that compare the opset at the opsets where that matters, and those of lowerings with static and dynamic
# sizes and after the same branches. `python -m benchmarks.mutants.smoke` writes this file.
cells = [
"""
#: The files of lowerings, and those that the statements of a program's lowerings are in.
_OPERATORS, _LOWERING = "exporter/operators/", "exporter/lowering/"

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


def chosen(reached: Reached, smoke: Set[str], candidates: Mapping[str, Cell], turns: Turns) -> list[str]:
    """Cells that together do all that no cell of the smoke tier does: run statements, at the opsets where they turn,
    with static or dynamic sizes, and after some branches."""
    groups = [each for ran, members in reached.groups() for each in _by_axes(ran, members, candidates, turns)]
    have = set[Hashable]().union(*(done for done, members in groups if not smoke.isdisjoint(members)))
    adding = [(done - have, members) for done, members in groups]
    # The one that adds most comes first, and what it adds can only have become less since it was put there.
    heap = [
        (-len(new), _is_at_another_opset(candidates[members[0]]), len(done), number)
        for number, ((new, members), (done, _)) in enumerate(zip(adding, groups, strict=True))
    ]
    heapq.heapify(heap)
    found = []
    while heap:
        before, is_other, size, number = heapq.heappop(heap)
        new = adding[number][0] - have
        if not new:
            continue
        if len(new) < -before:
            heapq.heappush(heap, (-len(new), is_other, size, number))
            continue
        have |= new
        found.append(min(adding[number][1], key=lambda each: _order(candidates[each])))
    return found


def _by_axes(
    ran: Set[str], members: Iterable[str], candidates: Mapping[str, Cell], turns: Turns
) -> Iterator[tuple[Set[Hashable], list[str]]]:
    """Cells that run the same statements, by what they do at their opset and with their sizes."""
    by_axes: dict[tuple[int, Shapes], list[str]] = {}
    for cell in members:
        by_axes.setdefault((candidates[cell].opset, candidates[cell].shapes), []).append(cell)
    anywhere: set[Hashable] = {*ran, *_branches(ran)}
    for (opset, shapes), cells_there in by_axes.items():
        turning = {(each, opset) for each in ran if opset in turns.get(each, ())}
        of_sizes = {(each, shapes) for each in ran if each.startswith((_OPERATORS, _LOWERING))}
        yield anywhere | turning | of_sizes, cells_there


def _branches(ran: Iterable[str]) -> Iterator[frozenset[str]]:
    """The sets of statements that are run of each file of lowerings."""
    by_file: dict[str, list[str]] = {}
    for statement in ran:
        if statement.startswith(_OPERATORS):
            by_file.setdefault(statement.rpartition(":")[0], []).append(statement)
    return map(frozenset, by_file.values())


def _order(cell: Cell) -> tuple[bool, int, str]:
    """Among cells that run the same statements, one at the opset of the smoke tier with a short id comes first."""
    return _is_at_another_opset(cell), len(cell.id), cell.id


def _is_at_another_opset(cell: Cell) -> bool:
    return cell.opset != MIDDLE_OPSET


def text(chosen_cells: Iterable[Cell]) -> str:
    lines = sorted(smoke_cells.line_of(each.case.label, each.dtype, each.opset, each.shapes) for each in chosen_cells)
    return _HEAD + "".join(f"    {_quoted(line)},\n" for line in lines) + "]\n"


def _quoted(line: str) -> str:
    """As a string of TOML; labels contain no control characters."""
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main(
    folder: Annotated[str, typer.Argument(help="The folder of declarations.")] = "op_cases",
    processes: Annotated[int, typer.Option("-n", min=1, help="Processes at a time.")] = 1,
) -> None:
    """Write the cells that the smoke tier runs besides its own."""
    terminal, only = Console(stderr=True), (f"{folder}/*/*",)
    by_file = cells(Tier.DEFAULT, only)
    smoke = {cell.id for each in cells(Tier.SMOKE, only).values() for cell in each if not _is_added(cell)}
    scope = Scope.of(by_file)
    with Progress(console=terminal, transient=True) as progress, ThreadPoolExecutor(processes) as pool:
        reached = scope.reached(pool, progress, terminal)
    found = chosen(reached, smoke, scope.cells, turns_of(scope.files))
    path = Path(folder) / smoke_cells.FILE
    path.write_text(text(scope.cells[each] for each in found), "utf-8")
    terminal.print(f"{path}: {len(found)} cells besides {len(smoke)}")


def _is_added(cell: Cell) -> bool:
    """Whether the smoke tier has the cell because of the file as it is now."""
    added = smoke_cells.read_added(cell.case.declaration.file.parent).get(cell.case.label, smoke_cells.NOTHING)
    return cell.opset in added.opsets(cell.dtype, cell.shapes, Selection())


if __name__ == "__main__":
    typer.run(main)
