"""Faults that are planted in the exporter: which there are, and what planting one does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.mutants.reached import Reached, survey
from benchmarks.mutants.sites import Mutant, NotPlantedError, mutants_of, plant
from benchmarks.mutants.trial import judge, spread
from onnx_parity.exporter.lowering.aten import activation
from onnx_parity.harness.axes import Device, Selection, Tier
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.record import Status
from onnx_parity.op_cases import activation as cases

FILE = Path(activation.__file__)
NAME = "exporter/lowering/aten/activation.py"
SOURCE = '''
def lower(g, x, beta=1):
    """A docstring is no constant: 3."""
    if beta == 2:
        raise ValueError(f"{beta} is not 2")
    y = g.op("Sub", g.cast(x, 1), x, axis=0)
    return g.unsupported("reason 4") if x is None else y * 1.5


class Lowering:
    def scale(self, g, x):
        return [g.less(x, each) for each in (1,)]
'''


def cells(name: str) -> list[Cell]:
    return list(cells_of(name, getattr(cases, name), Selection(tier=Tier.SMOKE, devices=(Device.CPU,))))


def test_which_faults_there_are(tmp_path: Path) -> None:
    path = tmp_path / "lower.py"
    path.write_text(SOURCE)
    found = list(mutants_of(path, "lower.py"))
    assert Counter(each.kind for each in found) == Counter(
        {"a constant": 4, "a condition": 2, "a comparison": 2, "swapped operands": 2, "an operator's name": 1}
        | {"a dropped cast": 1, "an axis off by one": 1}
    )
    assert {each.function for each in found} == {"lower", "Lowering.scale"}
    assert "g.op('Sub', x, g.cast(x, 1), axis=0)" in {each.after for each in found}


def test_a_fault_is_noticed_blamed_and_located(tmp_path: Path) -> None:
    mutant = next(each for each in mutants_of(FILE, NAME) if each.function == "softshrink")
    noticed = judge(mutant, FILE, [("smoke", cells("softshrink"))], tmp_path / "stderr")
    assert (noticed.tier, noticed.not_planted) == ("smoke", "")
    assert noticed.notice is not None
    assert (noticed.notice.status, noticed.notice.blame) == (Status.FAILED, "exporter")
    assert noticed.notice.operator == "aten::softshrink"


def test_a_cell_that_does_not_run_it_does_not_notice(tmp_path: Path) -> None:
    mutant = next(each for each in mutants_of(FILE, NAME) if each.function == "softshrink")
    assert judge(mutant, FILE, [("smoke", cells("relu"))], tmp_path / "stderr").tier == ""


def test_what_cells_run() -> None:
    root = FILE.parents[3]
    reached: Reached = survey([*cells("hardswish")[:1], *cells("relu")[:1]], root, {}, lambda: None)
    assert reached.touched(NAME, "hardswish") == [cells("hardswish")[0].id]
    assert reached.aten[cells("hardswish")[0].id] == ("aten::hardswish",)
    assert len(reached.touched("exporter/lowering/builder.py", "Graph.op")) == 2


def test_a_function_that_is_not_there() -> None:
    mutant = next(mutants_of(FILE, NAME))
    with pytest.raises(NotPlantedError, match="no_such is not a function"):
        plant(Mutant(mutant.file, "no_such", 1, mutant.kind, mutant.node, "", ""), FILE)


def test_cases_take_turns() -> None:
    every = [*cells("hardswish")[:2], *cells("relu")[:2]]
    assert [each.case.name for each in spread(every)] == ["hardswish", "relu", "hardswish", "relu"]
