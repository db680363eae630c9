"""Which cells of cases that take long the default tier keeps."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from benchmarks.mutants.costly import kept, stays
from benchmarks.mutants.costs import Costs, program_of
from benchmarks.mutants.told import told_by, told_by_these_alone
from onnx_parity.harness.axes import Device, Dtype, Selection, Shapes
from onnx_parity.harness.case import BATCH, floats, op
from onnx_parity.harness.matrix.cells import cells_of
from onnx_parity.harness.matrix.named_cells import Named

_CELLS = list(
    cells_of(
        "elu",
        op(F.elu, floats(2, 3), alpha=[1.0, 2.0, 3.0], dynamic=BATCH),
        Selection(opsets=(9, 18), devices=(Device.CPU,), dtypes=(Dtype.FLOAT32,)),
    )
)
#: Each cell takes a second, and each program another one: the two of a case take six.
_COSTS = Costs({cell.id: 1.0 for cell in _CELLS}, {program_of(cell): 1.0 for cell in _CELLS})


def _points(named: dict[str, Named], most: float) -> dict[str, list[tuple[int, Shapes]]]:
    return {
        label: [(cell.opset, cell.shapes) for cell in those]
        for label, those in kept(_CELLS, _COSTS, named, most).items()
    }


def test_the_first_case_of_a_declaration_keeps_a_cell_of_each_shapes_and_others_none() -> None:
    assert _points({}, most=5.0) == {
        "elu[alpha=1.0]": [(18, Shapes.STATIC), (18, Shapes.DYNAMIC)],
        "elu[alpha=2.0]": [],
        "elu[alpha=3.0]": [],
    }


def test_cases_that_take_less_are_left_as_they_are() -> None:
    assert _points({}, most=6.0) == {}


def test_a_cell_that_the_smoke_tier_has_is_enough() -> None:
    named = Named()
    named.add(Dtype.FLOAT32, Shapes.DYNAMIC, 9)
    assert _points({"elu[alpha=1.0]": named}, most=5.0)["elu[alpha=1.0]"] == [(18, Shapes.STATIC)]


def test_what_no_other_case_tells_is_told_by_the_programs_that_tell_most_for_their_time() -> None:
    [one, two, three] = ([cell for cell in _CELLS if f"alpha={alpha}" in cell.id] for alpha in (1.0, 2.0, 3.0))
    told = {program_of(cell): {"a"} for cell in one}
    told |= {program_of(cell): {"a", "b"} for cell in two} | {program_of(cell): {"a", "b", "c"} for cell in three}
    dynamic = [cell for cell in three if cell.shapes is Shapes.DYNAMIC]
    costs = Costs(_COSTS.cells, {**_COSTS.programs, program_of(dynamic[0]): 5.0})
    [chosen] = told_by_these_alone([*two, *three], one, told, costs)
    assert (chosen.case.label, chosen.opset, chosen.shapes) == ("elu[alpha=3.0]", 18, Shapes.STATIC)
    assert not list(told_by_these_alone(two, three, told, costs))


def test_cells_of_costly_cases_stay_if_they_are_kept_or_named() -> None:
    named = Named()
    named.add(Dtype.FLOAT32, Shapes.DYNAMIC, 9)
    [kept_one] = [cell for cell in _CELLS if "alpha=3.0" in cell.id and (cell.opset, cell.shapes) == (9, Shapes.STATIC)]
    stay, others = stays(_CELLS, {"elu[alpha=2.0]": [], "elu[alpha=3.0]": [kept_one]}, {"elu[alpha=2.0]": named})
    assert {cell.id for cell in (*stay, *others)} == {cell.id for cell in _CELLS}
    assert sorted((cell.case.label, cell.opset, cell.shapes) for cell in stay) == sorted(
        [
            *((cell.case.label, cell.opset, cell.shapes) for cell in _CELLS if "alpha=1.0" in cell.id),
            ("elu[alpha=2.0]", 9, Shapes.DYNAMIC),
            ("elu[alpha=3.0]", 9, Shapes.STATIC),
        ]
    )


def test_a_program_tells_that_a_dtype_is_not_computed_in_fewer_bits() -> None:
    declared = op(torch.cumsum, floats(2, 3), dim=0, dtypes=[torch.float32, torch.float64])
    cells = list(cells_of("cumsum", declared, Selection(opsets=(18,), devices=(Device.CPU,))))
    told = told_by(cells, 0, 1, lambda: None)
    narrower = {cell.dtype: "fewer bits" in str(told[program_of(cell)]) for cell in cells}
    assert narrower == {Dtype.FLOAT32: False, Dtype.FLOAT64: True}
