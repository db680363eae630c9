"""Which tests a pack has: the cases of single operators, and the cells of a tier of the matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from onnx_parity.harness.axes import ONNX_REFERENCE, ONNXRUNTIME, PARITY, Capture, Device, Selection, Shapes, Tier
from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.conformance.contents import (
    Contents,
    UnfitError,
    id_of_cell,
    lists_of_case,
    lists_of_cell,
    of_case,
    of_cell,
)
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.onnx_node import OnnxCase, OnnxNode
from onnx_parity.harness.running.stages import Bench

__all__ = ["Planned", "declared_cases", "plan_cases", "plan_cells"]

#: The package of the declarations. It is named and not imported, because declarations build on the harness.
_DECLARATIONS = "onnx_parity.op_cases.onnx"


@dataclass(frozen=True, slots=True)
class Planned:
    """A test that a pack may have. `make` computes its contents, or raises `UnfitError`."""

    id: str
    lists: Sequence[str]
    make: Callable[[], Contents]


@cache
def declared_cases() -> tuple[OnnxCase, ...]:
    """The cases of all files of `op_cases/onnx/`, in the order in which they are declared."""
    package = import_module(_DECLARATIONS)
    modules = [import_module(f"{_DECLARATIONS}.{name}")
               for name in sorted(module.name for module in iter_modules(package.__path__))]  # fmt: skip
    declared = [value for module in modules for value in vars(module).values() if isinstance(value, OnnxNode)]
    return tuple(case for each in declared for case in each.list_cases())


@cache
def plan_cases() -> tuple[Planned, ...]:
    return tuple(Planned(case.id, lists_of_case(case), partial(of_case, case)) for case in declared_cases())


def plan_cells(places: Sequence[Path], tier: Tier, seed: int) -> Iterator[Planned]:
    """The models that the exporter makes of a tier's cells, each once, whatever runtimes run it."""
    bench = Bench(seed)
    selection = Selection(tier=tier, devices=(Device.CPU,), exporters=(PARITY,), captures=(Capture.TRACE,))
    seen: set[str] = set()
    for place in places:
        for name, declaration in declared_under(place):
            for cell in cells_of(name, declaration, selection):
                id_ = id_of_cell(cell)
                if cell.shapes is Shapes.STATIC and cell.runtime in (ONNXRUNTIME, ONNX_REFERENCE) and id_ not in seen:
                    seen.add(id_)
                    yield Planned(id_, lists_of_cell(cell), partial(_run, bench, cell))


def _run(bench: Bench, cell: Cell) -> Contents:
    """A cell is run whole, so that a model of which the harness knows that it is wrong becomes no test."""
    found: list[Contents | UnfitError] = []

    def keep(outcome: Outcome) -> None:
        try:
            found.append(of_cell(outcome))
        except UnfitError as error:
            found.append(error)

    bench.run(cell, keep)
    made = found[0] if found else UnfitError("it cannot run here")
    if isinstance(made, UnfitError):
        raise made
    return made
