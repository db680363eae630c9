"""Which tests a pack has: the cases of single operators, and the cells of a tier of the matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from onnx_parity.harness.axes import ONNX_REFERENCE, ONNXRUNTIME, PARITY, Capture, Device, Selection, Shapes, Tier
from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.conformance.contents import (
    LISTS_OF_NODE_TEST,
    Contents,
    id_of_cell,
    lists_of_case,
    lists_of_cell,
    of_case,
    of_cell,
    of_node_test,
)
from onnx_parity.harness.conformance.values import UnfitError
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.onnx_cases.node_tests import NodeTest, collect_node_tests, expect_outputs
from onnx_parity.harness.onnx_node import OnnxCase, OnnxNode
from onnx_parity.harness.running.stages import Bench

__all__ = [
    "ONNX_TESTS",
    "Planned",
    "declared_cases",
    "declared_nodes",
    "plan_cases",
    "plan_cells",
    "plan_node_tests",
]

#: The package of the declarations. It is named and not imported, because declarations build on the harness.
_DECLARATIONS = "onnx_parity.op_cases.onnx"
#: What its `differences.py` calls onnx's own tests.
ONNX_TESTS = "onnx.backend.test"


@dataclass(frozen=True, slots=True)
class Planned:
    """A test that a pack may have. `make` computes its contents, or raises `UnfitError`."""

    id: str
    lists: Sequence[str]
    make: Callable[[], Contents]


@cache
def declared_nodes() -> tuple[OnnxNode, ...]:
    """What the files of `op_cases/onnx/` declare, in their order."""
    package = import_module(_DECLARATIONS)
    modules = [import_module(f"{_DECLARATIONS}.{name}")
               for name in sorted(module.name for module in iter_modules(package.__path__))]  # fmt: skip
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, OnnxNode))


@cache
def declared_cases() -> tuple[OnnxCase, ...]:
    """The cases of all files of `op_cases/onnx/`."""
    return tuple(case for each in declared_nodes() for case in each.list_cases())


@cache
def plan_cases() -> tuple[Planned, ...]:
    return tuple(Planned(case.id, lists_of_case(case), partial(of_case, case)) for case in declared_cases())


def plan_node_tests() -> Iterator[Planned]:
    """The tests that onnx generates for single nodes, and for the functions that define operators."""
    known = import_module(f"{_DECLARATIONS}.differences").DIFFERENCES[ONNX_TESTS]
    for test in collect_node_tests():
        reason = next((why for patterns, why in known if any(fnmatchcase(test.id, each) for each in patterns)), "")
        yield Planned(test.id, LISTS_OF_NODE_TEST, partial(_make_node_test, test, reason))


def _make_node_test(test: NodeTest, reason: str) -> Contents:
    if reason:
        raise UnfitError(f"of ONNX's own tests: {reason}")
    return of_node_test(test, expect_outputs(test, collect_node_tests(), declared_nodes()))


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
