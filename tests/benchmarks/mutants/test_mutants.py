"""Faults that are planted: which there are in the exporter, what planting one does, and faults of models."""

from __future__ import annotations

import gc
import os
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.reference
import pytest

from benchmarks.mutants import reached
from benchmarks.mutants.__main__ import drawn
from benchmarks.mutants.codes import NotPlantedError, functions_below
from benchmarks.mutants.conditions import Condition, meeting
from benchmarks.mutants.fate import Fate, in_batches, judge, spread
from benchmarks.mutants.faulty_model import Fault, with_fault
from benchmarks.mutants.models import Models
from benchmarks.mutants.reached import NotWatchedError, Ran, Reached, ran
from benchmarks.mutants.searched import Programs
from benchmarks.mutants.shares import is_named
from benchmarks.mutants.sites import Mutant, Mutation, conditional_mutants_of, mutants_of, plant
from benchmarks.mutants.watching import watch
from onnx_parity.exporter.operators.activation import lowering as activation
from onnx_parity.harness.axes import Device, Dtype, Selection, Tier
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.record import Status
from onnx_parity.harness.subjects.exporter_interface import Captured
from onnx_parity.op_cases import activation as cases

FILE = Path(activation.__file__)
NAME = "exporter/operators/activation/lowering.py"
FUNCTIONS = functions_below(FILE.parent)
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
    selection = Selection(tier=Tier.SMOKE, devices=(Device.CPU,), dtypes=(Dtype.FLOAT32,))
    return list(cells_of(name, getattr(cases, name), selection))


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


def test_the_same_change_twice_has_two_names(tmp_path: Path) -> None:
    path = tmp_path / "lower.py"
    path.write_text("def lower(x):\n    y = x + 1\n    return y * 1\n")
    one, other = mutants_of(path, "lower.py")
    assert (one.key, other.key) == ("lower.py lower: a constant: 1  ->  2", "lower.py lower: a constant: 1  ->  2 (2)")
    assert (one.place, other.place) == ("lower.py:2", "lower.py:3")


def softshrinks_fault() -> Mutant:
    start = f"{NAME} softshrink: an operator's name"
    return next(each for each in mutants_of(FILE, NAME) if each.key.startswith(start))


@dataclass
class Cells:
    """What cells are without a fault."""

    model: str = ""
    sound: bool = True

    def passes(self, cell: str) -> bool:
        return self.sound

    def model_of(self, cell: str) -> str:
        return self.model


def test_a_fault_is_noticed_blamed_and_located(tmp_path: Path) -> None:
    tiers = [("smoke", cells("softshrink"))]
    noticed = judge(softshrinks_fault(), FILE, FUNCTIONS, tiers, Cells(), tmp_path / "stderr")
    assert (noticed.tier, noticed.not_planted) == ("smoke", "")
    assert noticed.notice is not None
    assert (noticed.notice.status, noticed.notice.blame) == (Status.FAILED, "exporter")
    assert noticed.notice.operator == "aten::softshrink"
    assert noticed.became == f"noticed by {noticed.notice.cell} of the smoke tier"


ACTIVATED = {each.key: each for each in conditional_mutants_of(FILE, NAME)}


def test_which_conditions_there_are(tmp_path: Path) -> None:
    path = tmp_path / "lower.py"
    path.write_text(SOURCE)
    found = list(conditional_mutants_of(path, "lower.py"))
    # Nothing is lowered where there is no graph, and no axis is negative where there is none.
    assert {each.function for each in found} == {"lower", "Lowering.scale"}
    assert {each.condition for each in found} == {*Condition} - {Condition.NEGATIVE, Condition.READERS}
    kinds = {each.kind for each in found}
    assert {Mutation.DEFAULT, Mutation.TIES, Mutation.CONSTANT} <= kinds
    assert "beta = 1" in {each.after for each in found}


@pytest.mark.parametrize(
    ("fault", "name", "dtype", "differ"),
    [
        ("softshrink: a parameter that has its default:   ->  lambd = 0.5, in float64", "softshrink", "float64", True),
        ("softshrink: a parameter that has its default:   ->  lambd = 0.5, in float64", "softshrink", "float32", False),
        ("softshrink: an input without NaN:   ->  self = without_nan(g, self), for more than 30 elements", "softshrink",
         "float32", False),
        # What has no elements has no NaN to lose.
        ("softmax: an input without NaN:   ->  self = without_nan(g, self), for an empty tensor", "softmax_of_nothing",
         "float32", False),
    ],
)  # fmt: skip
def test_a_fault_under_a_condition(fault: str, name: str, dtype: str, differ: bool, tmp_path: Path) -> None:
    selection = Selection(tier=Tier.SMOKE, devices=(Device.CPU,), dtypes=(Dtype(dtype),))
    every = [each for each in cells_of(name, getattr(cases, name), selection) if each.opset == 18]
    models = {each.id: Models().hash_of(each) for each in every}

    class Known(Cells):
        def model_of(self, cell: str) -> str:
            return models[cell]

    mutant = ACTIVATED[f"{NAME} {fault}"]
    assert mutant.family == "activation"
    fate = judge(mutant, FILE, FUNCTIONS, [("smoke", every)], Known(), tmp_path / "stderr")
    assert (fate.not_planted, fate.condition) == ("", str(mutant.condition))
    assert (fate.tier, bool(fate.differed)) == (("smoke", True) if differ else ("", False))


def test_an_equivalent_fault_is_equivalent_under_each_condition() -> None:
    fate = Fate("relu: a constant: 1  ->  2, in float64", "a constant", "", condition="in float64")
    assert is_named(fate, {"relu: a constant: 1  ->  2"})
    assert is_named(fate, {"relu: a constant: 1  ->  2, in float64"})
    assert not is_named(fate, {"relu: a constant: 1  ->  2, in bool"})


def test_conditions_take_turns(tmp_path: Path) -> None:
    statements = {each.place for each in ACTIVATED.values()}
    root = tmp_path
    (root / NAME).parent.mkdir(parents=True)
    (root / NAME).write_bytes(FILE.read_bytes())
    few = drawn(root, 40, 0, statements, conditions=True)
    conditions = Counter(each.condition for each in few)
    assert max(conditions.values()) <= 2
    more = drawn(root, 80, 0, statements, conditions=True)
    assert {each.key for each in few} <= {each.key for each in more}
    met = {each for each in statements if each.endswith((meeting("", Condition.OLD), meeting("", Condition.EMPTY)))}
    old = drawn(root, 40, 0, met, conditions=True)
    assert {each.condition for each in old} == {Condition.OLD, Condition.EMPTY}
    assert not drawn(root, 40, 0, met, conditions=True, families=("pooling",))


def test_a_cell_notices_only_what_it_runs_and_what_it_passes_without(tmp_path: Path) -> None:
    for name, sound in (("relu", True), ("softshrink", False)):
        tiers = [("smoke", cells(name)[:2])]
        fate = judge(softshrinks_fault(), FILE, FUNCTIONS, tiers, Cells(sound=sound), tmp_path / "stderr")
        assert (fate.tier, fate.ran) == ("", 2)
        assert fate.became == "survived 2 cells"


def test_a_cell_whose_model_is_the_same_is_not_run(tmp_path: Path) -> None:
    cell = cells("relu")[0]
    for model, differed in ((Models().hash_of(cell), 0), ("of another model", 1)):
        fate = judge(softshrinks_fault(), FILE, FUNCTIONS, [("smoke", [cell])], Cells(model), tmp_path / "stderr")
        assert (fate.tier, fate.ran, fate.differed) == ("", 1, differed)


def test_batches_keep_cells_of_a_program_together() -> None:
    every = spread([*cells("hardswish")[:5], *cells("relu")[:5]])
    found = in_batches(every)
    assert {cell.id for cell in found} == {cell.id for cell in every}
    names = [cell.case.name for cell in found]
    assert [name for name, _ in groupby(names[:8])] == ["hardswish", "relu"]


def test_what_cells_run(tmp_path: Path) -> None:
    two = [cells("hardswish")[0], cells("relu")[0]]
    kept = tmp_path / "kept"
    found = ran(two, {NAME: FILE}, FUNCTIONS, "this version", kept, tmp_path / "stderr")
    every = Reached()
    every.add(found)
    place = next(each.place for each in mutants_of(FILE, NAME) if each.function == "hardswish")
    assert every.touched(place) == [two[0].id]
    assert every.operators[two[0].id] == ("aten::hardswish",)
    under = ran(two, {NAME: FILE}, FUNCTIONS, "", tmp_path / "under", tmp_path / "stderr", with_conditions={NAME})
    every = Reached()
    every.add(under)
    opset = Condition.OLDEST if two[0].opset < 11 else Condition.MIDDLE if two[0].opset in (17, 18) else Condition.OLD
    assert every.touched(meeting(place, opset)) == every.touched(place) == [two[0].id]
    assert not every.touched(meeting(place, Condition.FLOAT64))
    # As it was kept, and not of another version.
    assert ran(two, {}, FUNCTIONS, "this version", kept, tmp_path / "stderr") == found
    assert not ran(two, {}, FUNCTIONS, "another", kept, tmp_path / "stderr").statements


def test_cells_that_run_something_else_of_the_file_come_first() -> None:
    every = Reached()
    statements, sets = ["a:1", "a:2", "b:1"], [(0,), (0, 2), (0, 1, 2)]
    every.add(Ran("", statements, sets, {"plain": 0, "with b": 1, "plain too": 0, "rare": 2}))
    assert every.touched("a:1") == ["plain", "rare", "plain too", "with b"]
    assert every.touched("b:1") == ["with b", "rare"]


def test_cells_whose_process_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reached, "captured_of", lambda cell: os.abort())
    with pytest.raises(NotWatchedError, match="the cells of kept was killed by SIGABRT"):
        ran([cells("relu")[0]], {}, FUNCTIONS, "this version", tmp_path / "kept", tmp_path / "stderr")
    assert not (tmp_path / "kept").exists()


def test_an_error_that_is_no_refusal_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def captured(cell: Cell) -> Captured:
        raise ValueError("a fault of the exporter")

    monkeypatch.setattr(reached, "captured_of", captured)
    with pytest.raises(NotWatchedError, match=r"(?s)exited with 1.*a fault of the exporter"):
        ran([cells("relu")[0]], {}, FUNCTIONS, "this version", tmp_path / "kept", tmp_path / "stderr")


def test_statements_are_noted_in_the_functions_that_exist(tmp_path: Path) -> None:
    path = tmp_path / "lower.py"
    path.write_text("def lower(x):\n    if x:\n        return 1\n    return 2\n")
    names: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    noted = watch({"lower.py": path}, functions_below(tmp_path))
    assert names["lower"](False) == 2  # type: ignore[operator]
    assert noted == {"lower.py:2", "lower.py:4"}


def test_functions_are_found_that_were_frozen_for_a_process_to_be_forked() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    # Other tests may have imported more.
    assert functions_below(FILE.parent).keys() >= FUNCTIONS.keys()
    assert gc.get_freeze_count() >= frozen


NAMESAKES = """
FINDERS = (
    lambda: 1,
    lambda: 2,
)
BOTH = (lambda: 3, lambda: 4)


class Half:
    @property
    def size(self):
        return self.x + 1

    @size.setter
    def size(self, x):
        self.x = x + 5
"""


def test_functions_of_one_name_keep_what_they_do(tmp_path: Path) -> None:
    path = tmp_path / "lower.py"
    path.write_text(NAMESAKES)
    names: dict[str, Any] = {}
    exec(compile(NAMESAKES, str(path), "exec"), names)
    functions = functions_below(tmp_path)

    def values() -> list[int]:
        half = names["Half"]()
        half.size = 10
        return [*(each() for each in names["FINDERS"] + names["BOTH"]), half.size]

    noted = watch({"lower.py": path}, functions)
    assert values() == [1, 2, 3, 4, 16]
    assert noted == {"lower.py:12", "lower.py:16"}
    plant(next(each for each in mutants_of(path, "lower.py") if each.before == "5"), path, functions)
    assert values() == [1, 2, 3, 4, 17]


def test_programs_that_run_a_statement() -> None:
    programs = Programs("", ["a:1", "b:2"], [1.0, 2.0, 4.0], [(0,), (1,), (0, 1)])
    assert programs.reaching("a:1", 10) == [(0, 1.0), (2, 7.0)]
    assert programs.reaching("a:1", 5) == [(0, 1.0)]
    assert programs.reaching("c:3", 10) == []


def test_a_function_that_is_not_there() -> None:
    mutant = next(mutants_of(FILE, NAME))
    with pytest.raises(NotPlantedError, match="no_such is not a function"):
        plant(Mutant(mutant.file, "no_such", 1, mutant.kind, mutant.node, "", "", 1), FILE, FUNCTIONS)


def test_a_model_that_is_wrong_at_one_size() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> main (float[2] x, float[3] y) => (float[2] a, float[3] b)'
        " { a = Neg (x) b = Neg (y) }"
    )
    faulty = with_fault(model, Fault("Neg", 3))
    onnx.checker.check_model(faulty, full_check=True)
    a, b = onnx.reference.ReferenceEvaluator(faulty).run(None, {"x": np.ones(2, "f"), "y": np.ones(3, "f")})
    assert np.asarray(a).tolist() == [-1, -1]
    assert np.asarray(b).tolist() == pytest.approx([-1.01] * 3)


def test_cases_take_turns() -> None:
    every = [*cells("hardswish")[:2], *cells("relu")[:2]]
    assert [each.case.name for each in spread(every)] == ["hardswish", "relu", "hardswish", "relu"]
