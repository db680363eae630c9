"""Which cells of cases that take long the default tier keeps."""

from __future__ import annotations

from torch.nn import functional as F

from benchmarks.mutants.costly import kept
from benchmarks.mutants.costs import Costs, program_of
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
