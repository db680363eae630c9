"""Which cells the smoke tier is given: few that do together all that the default tier does."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import pytest
from torch.nn import functional as F

from benchmarks.mutants.conditions import Condition, meeting
from benchmarks.mutants.costs import Costs, program_of
from benchmarks.mutants.reached import Ran, Reached
from benchmarks.mutants.smoke import ALIKE, HEAD, Turns, chosen, judged_of, text, turns_of
from onnx_parity.harness.axes import Device, Dtype, Selection, Shapes
from onnx_parity.harness.case import floats, op
from onnx_parity.harness.judging.outcome import blank_record
from onnx_parity.harness.matrix import named_cells
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.record import Record, Status
from onnx_parity.op_cases import activation as cases

_STATIC = Selection(opsets=(9, 12, 13, 18), devices=(Device.CPU,), dtypes=(Dtype.FLOAT32,))
#: The cells of two cases.
CELLS, OTHERS = (
    {cell.opset: cell for cell in cells_of(name, declaration, _STATIC) if cell.shapes == "static"}
    for name, declaration in (("relu", cases.relu), ("other_relu", cases.relu))
)
DYNAMIC = next(
    cell
    for cell in cells_of("softmax", cases.softmax, Selection(devices=(Device.CPU,), dtypes=(Dtype.FLOAT32,)))
    if cell.shapes == "dynamic"
)


def test_statements_turn_at_the_opsets_that_they_compare(tmp_path: Path) -> None:
    path = tmp_path / "forms.py"
    path.write_text(
        "def of(self, x):\n    if self.opset >= (13 if x else 10):\n        return x > 3\n    return opset < 9\n"
    )
    assert turns_of({"forms.py": path}) == {"forms.py:2": {9, 10, 12, 13}, "forms.py:4": {8, 9}}


def chosen_of(
    cells: Iterable[Cell],
    sets: list[tuple[int, ...]],
    statements: list[str],
    of: Mapping[str, int],
    turns: Turns,
    costs: Costs = ALIKE,
    most: float = math.inf,
) -> set[str]:
    reached = Reached()
    reached.add(Ran("", statements, sets, dict(of)))
    return {cell.id for cell in chosen(reached, {cell.id: cell for cell in cells}, turns, costs, most)}


def test_one_cell_is_enough_that_does_what_others_do_and_further_ones_are_for_opsets_where_statements_turn() -> None:
    of = {cell.id: int(opset == 9) for opset, cell in CELLS.items()}
    sets, statements = [(0,), (0, 1)], ["a:1", "a:2"]
    assert chosen_of(CELLS.values(), sets, statements, of, {}) == {CELLS[9].id}
    found = chosen_of(CELLS.values(), sets, statements, of, {"a:1": {12, 13, 18}})
    assert found == {CELLS[opset].id for opset in (9, 12, 13, 18)}


def test_cells_are_chosen_for_dynamic_sizes_and_for_other_branches_of_lowerings() -> None:
    cells = (*CELLS.values(), DYNAMIC)
    of = {CELLS[9].id: 0, CELLS[18].id: 1, CELLS[13].id: 2, DYNAMIC.id: 0}

    def found_in(file: str) -> set[str]:
        return chosen_of(cells, [(0,), (1,), (0, 1)], [f"{file}:1", f"{file}:2"], of, {})

    assert found_in("exporter/operators/shape/lowering.py") == {each.id for each in cells if each is not CELLS[12]}
    assert found_in("exporter/lowering/opsets/spatial.py") == {CELLS[13].id, DYNAMIC.id}
    # Of its case, no other cell does anything.
    assert found_in("exporter/recording/frames.py") == {CELLS[13].id, DYNAMIC.id}


def test_two_cases_run_statements_under_each_condition_where_something_is_lowered() -> None:
    def found_in(file: str) -> set[str]:
        place = f"{file}:1"
        statements = [place, meeting(place, Condition.OLDEST), meeting(place, Condition.OLD)]
        of = {CELLS[9].id: 0, CELLS[12].id: 1, CELLS[13].id: 1, OTHERS[13].id: 1, OTHERS[18].id: 2}
        cells = (*CELLS.values(), OTHERS[13], OTHERS[18])
        return chosen_of(cells, [(0, 1), (0, 2), (0,)], statements, of, {})

    # Only one case is run at an opset before 11, and two cells of one case have the same values.
    found = found_in("exporter/lowering/opsets/spatial.py")
    assert found in [{CELLS[9].id, each.id, OTHERS[13].id} for each in (CELLS[12], CELLS[13])]
    assert len(found_in("exporter/recording/frames.py")) == 2


def test_lowerings_are_run_by_cases_of_their_own_family() -> None:
    own, quicker = CELLS[18], next(iter(cells_of("here", op(F.elu, floats(2)), _STATIC)))
    costs = Costs({own.id: 9.0, quicker.id: 0.1})

    def found_in(family: str) -> set[str]:
        statements = [f"exporter/operators/{family}/lowering.py:1"]
        return chosen_of((own, quicker), [(0,)], statements, {own.id: 0, quicker.id: 0}, {}, costs, most=0.0)

    assert own.case.family == "activation" != quicker.case.family
    assert own.id in found_in("activation")
    assert found_in("pooling") == {quicker.id}


def test_the_quickest_cells_are_chosen_and_no_more_than_there_is_time_for() -> None:
    place = "exporter/lowering/opsets/spatial.py:1"
    statements = [place, meeting(place, Condition.FLOAT64)]
    cells = [CELLS[9], OTHERS[12], OTHERS[13]]
    of = {cell.id: 0 for cell in cells}
    seconds = dict(zip((cell.id for cell in cells), (0.1, 3.0, 0.2), strict=True))
    costs = Costs(seconds, {program_of(CELLS[9]): 1.0, program_of(OTHERS[12]): 1.0})
    assert chosen_of(cells, [(0, 1)], statements, of, {}, costs) == {CELLS[9].id, OTHERS[13].id}
    # What is done once is not given up.
    assert chosen_of(cells, [(0, 1)], statements, of, {}, costs, most=0.0) == {CELLS[9].id}
    # Nor is each case run, if that takes longer.
    other = {CELLS[9].id: 0, DYNAMIC.id: 0}
    assert chosen_of([CELLS[9], DYNAMIC], [(0,)], ["exporter/recording/frames.py:1"], other, {}, most=2.0) == {
        CELLS[9].id
    }


def test_cells_that_torch_cannot_compute_stand_for_no_others() -> None:
    absent = msgspec.structs.replace(blank_record(CELLS[9], "", "", worker=""), status=Status.ABSENT)
    passed = msgspec.structs.replace(blank_record(CELLS[13], "", "", worker=""), status=Status.PASSED)
    cells = {cell.id: cell for cell in (CELLS[9], CELLS[13], CELLS[18])}
    judged = judged_of(cells, [absent, passed])
    assert set(judged) == {CELLS[13].id, CELLS[18].id}
    reached = Reached()
    reached.add(Ran("", ["a:1"], [(0,)], dict.fromkeys(cells, 0)))
    assert CELLS[9].id not in {cell.id for cell in chosen(reached, judged, {})}


def test_how_long_cells_take_is_read_from_a_run() -> None:
    def took(cell: Cell, elapsed: float) -> Record:
        return msgspec.structs.replace(blank_record(cell, "", "", worker=""), elapsed=elapsed)

    cells = {cell.id: cell for cell in (CELLS[9], CELLS[12], CELLS[13], DYNAMIC)}
    records = [
        took(CELLS[9], 1.3),
        took(CELLS[12], 0.1),
        took(CELLS[13], 0.3),
        took(DYNAMIC, 0.3),
        took(CELLS[18], 9.0),
    ]
    costs = Costs.of(records, cells)
    # The first cell has captured the program; of a program's only cell it is not known how long that took.
    assert costs.of_program(CELLS[9]) == pytest.approx(1.1)
    assert costs.of_program(DYNAMIC) == pytest.approx(0.2)
    assert [costs.of_cell(cell) for cell in cells.values()] == pytest.approx([0.205, 0.105, 0.305, 0.105])
    assert costs.of_all(cells.values()) == pytest.approx(1.1 + 0.2 + 0.72)
    # One that no run had takes as long as most do.
    assert costs.of_cell(CELLS[18]) == pytest.approx(0.155)
    assert Costs.of([], cells).of_program(DYNAMIC) == ALIKE.of_program(DYNAMIC)


def test_lowerings_meet_nan_in_each_dtype_and_with_dynamic_sizes() -> None:
    selection = Selection(opsets=(18,), devices=(Device.CPU,))
    declared = {
        "plain": op(F.elu, floats(3), alpha=[1.0, 0.5], dynamic={"x": {0: "n"}}),
        "special": op(F.elu, floats(3, special=(math.nan,)), dynamic={"x": {0: "n"}}),
    }
    cells = [cell for name, declaration in declared.items() for cell in cells_of(name, declaration, selection)]
    statements = ["exporter/operators/activation/lowering.py:1"]
    found = chosen_of(cells, [(0,)], statements, {cell.id: 0 for cell in cells}, {})
    points = {(cell.case.label, cell.dtype.value, cell.shapes.value) for cell in cells if cell.id in found}
    special = {each for each in points if each[0] == "special"}
    assert {dtype for _, dtype, _ in special} == {"float32", "float64"}
    assert {shapes for _, _, shapes in special} == {"static", "dynamic"}
    # Each case is run once.
    assert {label for label, _, _ in points - special} == {"plain[alpha=1.0]", "plain[alpha=0.5]"}


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / named_cells.SMOKE).write_text(text(HEAD, [CELLS[9], CELLS[13], DYNAMIC], ["left out"]))
    named = named_cells.read_named(tmp_path / named_cells.SMOKE)
    assert set(named) == {CELLS[9].case.label, DYNAMIC.case.label, "left out"}
    assert not named["left out"].dtypes(Selection())
    assert named[CELLS[9].case.label].opsets(Dtype.FLOAT32, Shapes.STATIC, Selection()) == [13, 9]
    assert named[DYNAMIC.case.label].opsets(Dtype.FLOAT32, Shapes.DYNAMIC, Selection()) == [DYNAMIC.opset]
