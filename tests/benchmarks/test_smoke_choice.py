"""Which cells the smoke tier is given: those that run what it leaves out, at the opsets where that matters."""

from __future__ import annotations

from pathlib import Path

from benchmarks.mutants.reached import Ran, Reached
from benchmarks.mutants.smoke import chosen, turns_of
from onnx_parity.harness.axes import Device, Dtype, Selection
from onnx_parity.harness.matrix.cells import cells_of
from onnx_parity.op_cases import activation as cases

CELLS = {
    cell.opset: cell
    for cell in cells_of(
        "relu", cases.relu, Selection(opsets=(9, 12, 13, 18), devices=(Device.CPU,), dtypes=(Dtype.FLOAT32,))
    )
    if cell.shapes == "static"
}
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


def test_cells_are_added_for_statements_and_for_opsets_where_they_turn() -> None:
    reached, candidates = Reached(), {cell.id: cell for cell in CELLS.values()}
    sets = [(0,), (0, 1)]
    of_cells = {cell.id: int(opset == 9) for opset, cell in CELLS.items()}
    reached.add(Ran("", ["a:1", "a:2"], sets, of_cells))
    smoke = {CELLS[18].id}
    assert chosen(reached, smoke, candidates, {}) == [CELLS[9].id]
    found = chosen(reached, smoke, candidates, {"a:1": {12, 13, 18}})
    assert sorted(found) == sorted(CELLS[opset].id for opset in (9, 12, 13))


def test_cells_are_added_for_dynamic_sizes_and_for_other_branches_of_lowerings() -> None:
    candidates = {cell.id: cell for cell in (*CELLS.values(), DYNAMIC)}
    smoke = {CELLS[9].id, CELLS[18].id}
    of_cells = {CELLS[9].id: 0, CELLS[18].id: 1, CELLS[13].id: 2, DYNAMIC.id: 0}

    def found_in(file: str) -> set[str]:
        reached = Reached()
        reached.add(Ran("", [f"{file}:1", f"{file}:2"], [(0,), (1,), (0, 1)], of_cells))
        return set(chosen(reached, smoke, candidates, {}))

    assert found_in("exporter/operators/shape/lowering.py") == {CELLS[13].id, DYNAMIC.id}
    assert found_in("exporter/lowering/opsets/spatial.py") == {DYNAMIC.id}
    assert found_in("exporter/rewrites/fold_constants.py") == set()
