"""Writes which cells the default tier runs of cases that take long.

    python -m benchmarks.mutants.costly

Two fifths of the cases would take two thirds of the time of the default tier: decompositions of complex matrices,
interpolation in float64, programs of several seconds. Whatever statement of the exporter they run under whichever
condition, the smoke tier has cells that do (`python -m benchmarks.mutants.smoke`), and these are in the default tier
too. So a case whose cells take longer than a limit keeps few others, and the full tier has the rest. The first case of
a declaration keeps one cell with static sizes, and one with dynamic ones if it has any, so that the default tier runs
every declaration. And what is told by such cases alone, as `parity sensitivity` finds out, one cell goes on telling: an
attribute, or a dtype that must not be computed in fewer bits.

The cells are written to `op_cases/costly.toml`; a run of the default tier without this file says how long each case
takes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from benchmarks.mutants.costs import Costs, program_of
from benchmarks.mutants.scope import cells
from benchmarks.mutants.smoke import text
from benchmarks.mutants.told import told_by, told_by_these_alone
from onnx_parity.harness.axes import MIDDLE_OPSET, Shapes, Tier
from onnx_parity.harness.case import Declaration, Listing
from onnx_parity.harness.matrix import named_cells
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.project import find_project
from onnx_parity.harness.store import read_records

HEAD = """\
# The cells that the default tier runs of cases that take long, beside those of the smoke tier. The full tier runs all.
# `python -m benchmarks.mutants.costly` writes this file, and says which cases these are.
[cases]
"""
#: How long all cells of a case may take, one after the other.
MOST = 0.12


def kept(
    candidates: Iterable[Cell], costs: Costs, named: Mapping[str, named_cells.Named], most: float
) -> dict[str, list[Cell]]:
    """By the label of each case that takes longer, the cells that it keeps beside those that are named."""
    by_declaration: dict[Declaration, dict[str, list[Cell]]] = {}
    for cell in candidates:
        by_declaration.setdefault(cell.case.declaration, {}).setdefault(cell.case.label, []).append(cell)
    return {
        label: [] if number else list(_one_of_each_shapes(of_case, named.get(label, named_cells.NOTHING)))
        for cases in by_declaration.values()
        for number, (label, of_case) in enumerate(cases.items())
        # Of what a package lists the default tier has one sample of each entry already.
        if costs.of_all(of_case) > most and not isinstance(of_case[0].case.declaration, Listing)
    }


def _one_of_each_shapes(of_case: Sequence[Cell], named: named_cells.Named) -> Iterator[Cell]:
    """A cell with static sizes and one with dynamic ones, unless such a one is named."""
    for shapes in Shapes:
        those = [cell for cell in of_case if cell.shapes is shapes]
        if those and not any(named.has(cell.dtype, cell.opset, shapes) for cell in those):
            yield min(those, key=lambda cell: cell.opset != MIDDLE_OPSET)


def stays(
    candidates: Iterable[Cell], found: Mapping[str, Sequence[Cell]], named: Mapping[str, named_cells.Named]
) -> tuple[list[Cell], list[Cell]]:
    """The cells that stay in the default tier, if costly cases keep what is found beside those that are named; and the
    others."""
    stay, others = list[Cell](), list[Cell]()
    for cell in candidates:
        label = cell.case.label
        is_named = named.get(label, named_cells.NOTHING).has(cell.dtype, cell.opset, cell.shapes)
        (stay if label not in found or is_named or cell in found[label] else others).append(cell)
    return stay, others


def main(
    folder: Annotated[str, typer.Argument(help="The folder of declarations.")] = "op_cases",
    run: Annotated[
        Path,
        typer.Option(help="A run of the default tier without the file that is written.", show_default="runs/last"),
    ] = Path("runs/last"),
    processes: Annotated[int, typer.Option("-n", min=1, help="Processes at a time.")] = 1,
    seconds: Annotated[float, typer.Option(min=0, help="How long all cells of a case may take.")] = MOST,
) -> None:
    """Write which cells the default tier runs of cases that take long."""
    by_file = cells(Tier.DEFAULT, (f"{folder}/*/*",), costly=True)
    candidates = list(itertools.chain.from_iterable(by_file.values()))
    costs = Costs.of(read_records(run), {cell.id: cell for cell in candidates})
    named = named_cells.read_named(Path(folder) / named_cells.SMOKE)
    found = kept(candidates, costs, named, seconds)
    terminal = Console(stderr=True)
    with Progress(console=terminal, transient=True) as progress:
        task = progress.add_task("what the cases tell", total=len(set(map(program_of, candidates))))
        told = told_by(
            candidates, find_project(Path.cwd()).settings.seed or 0, processes, lambda: progress.advance(task)
        )
    stay, others = stays(candidates, found, named)
    for cell in told_by_these_alone(others, stay, told, costs):
        found[cell.case.label].append(cell)
    path = Path(folder) / named_cells.COSTLY
    path.write_text(text(HEAD, itertools.chain.from_iterable(found.values()), found), "utf-8")
    named_cells.read_named.cache_clear()
    left = list(itertools.chain.from_iterable(cells(Tier.DEFAULT, (f"{folder}/*/*",)).values()))
    terminal.print(
        f"{path}: {len(found)} cases; {len(left)} of {len(candidates)} cells stay in the default tier, "
        f"{costs.of_all(left):.0f} s of {costs.of_all(candidates):.0f} s"
    )


if __name__ == "__main__":
    typer.run(main)
