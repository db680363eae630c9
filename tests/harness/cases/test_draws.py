"""Drawn cells: the choices, how a failure is shrunk, and how it is printed."""

from __future__ import annotations

import torch

from onnx_parity.exporter.errors import CaptureError, LoweringError
from onnx_parity.exporter.request.marked_inputs import ListOf
from onnx_parity.harness.axes import Capture, Device, Dtype, Selection, Shapes, Tier
from onnx_parity.harness.case import Declaration, floats, given, ints, listed, model, op
from onnx_parity.harness.cases.draws import ATTEMPTS, DrawnCase, can_be_drawn, search
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.record import Stage, Status

_PRODUCT = op(torch.matmul, floats(2, 3), floats(3, 4))


def _cell(declaration: Declaration) -> Cell:
    case = DrawnCase(declaration, "it", "it[drawn]", {})
    return Cell(case, Dtype.FLOAT32, 9, Device.CPU, Capture.TRACE, "parity", "onnxruntime", Shapes.STATIC)


def _shapes(cell: Cell) -> list[tuple[int, ...]]:
    return [maker.shape for maker in cell.case.declaration.inputs]  # type: ignore[union-attr]


def test_a_failure_shrinks_to_a_small_declaration() -> None:
    def run(cell: Cell) -> Outcome:
        fails = _shapes(cell)[0][0] >= 3
        return Outcome(cell, "onnxruntime", status=Status.FAILED if fails else Status.PASSED, stage=Stage.COMPARE)

    outcome = search(_cell(_PRODUCT), run)
    assert outcome.status is Status.FAILED
    assert outcome.details == ["drawn: it = op(torch.matmul, floats(3,0), floats(0,0))"]


def test_the_draws_of_a_cell_are_the_same_in_every_process() -> None:
    def drawn() -> list[object]:
        seen: list[object] = []

        def run(cell: Cell) -> Outcome:
            seen.append(_shapes(cell))
            return Outcome(cell, "onnxruntime", stage=Stage.COMPARE)

        search(_cell(_PRODUCT), run)
        return seen

    assert drawn() == drawn()
    assert drawn()[1] == [(0, 0), (0, 2)]


def test_equal_sizes_stay_equal_so_that_a_product_stays_one() -> None:
    seen: list[list[tuple[int, ...]]] = []

    def run(cell: Cell) -> Outcome:
        seen.append(_shapes(cell))
        return Outcome(cell, "onnxruntime", stage=Stage.COMPARE)

    assert search(_cell(_PRODUCT), run).status is Status.PASSED
    assert len(seen) > 10
    assert all(left[1] == right[0] for left, right in seen)
    assert {left[0] for left, _ in seen} >= {0, 1, 2}


def test_the_time_is_that_of_all_draws() -> None:
    runs = 0

    def run(cell: Cell) -> Outcome:
        nonlocal runs
        runs += 1
        return Outcome(cell, "onnxruntime", stage=Stage.COMPARE, seconds={"export": 0.5})

    assert search(_cell(_PRODUCT), run).seconds == {"export": 0.5 * runs}
    assert runs > 10


def test_draws_that_torch_refuses_are_not_counted() -> None:
    def run(cell: Cell) -> Outcome:
        return Outcome(cell, "onnxruntime", status=Status.FAILED, stage=Stage.REFERENCE, reason="torch says no")

    outcome = search(_cell(_PRODUCT), run)
    assert (outcome.stage, outcome.reason) == (Stage.REFERENCE, "torch says no")


def test_draws_that_cannot_be_recorded_are_not_counted() -> None:
    def run(cell: Cell) -> Outcome:
        outcome = Outcome(cell, "onnxruntime", stage=Stage.EXPORT)
        outcome.fail(CaptureError("it returns no tensor") if _shapes(cell)[0][0] > 2 else LoweringError("it is broken"))
        return outcome

    outcome = search(_cell(_PRODUCT), run)
    assert outcome.details[0] == "drawn: it = op(torch.matmul, floats(0,0), floats(0,0))"
    assert outcome.reason == "LoweringError: it is broken"


def test_where_torch_refuses_nearly_everything_it_is_soon_enough() -> None:
    runs = 0

    def run(cell: Cell) -> Outcome:
        nonlocal runs
        runs += 1
        holds = runs % 20 == 0
        status, stage = (Status.PASSED, Stage.COMPARE) if holds else (Status.FAILED, Stage.REFERENCE)
        return Outcome(cell, "onnxruntime", status=status, stage=stage)

    assert search(_cell(_PRODUCT), run).status is Status.PASSED
    assert ATTEMPTS // 2 < runs <= ATTEMPTS


def test_an_intermittent_failure_is_reported_as_such() -> None:
    runs = 0

    def run(cell: Cell) -> Outcome:
        nonlocal runs
        runs += 1
        status = Status.FAILED if runs == 3 else Status.PASSED
        return Outcome(cell, "onnxruntime", status=status, stage=Stage.COMPARE)

    outcome = search(_cell(_PRODUCT), run)
    assert outcome.status is Status.FAILED
    assert outcome.details[1] == "the same draw had another outcome when it was run again"


def test_sizes_of_what_is_given_value_by_value_stay() -> None:
    seen: set[tuple[int, ...]] = set()

    def run(cell: Cell) -> Outcome:
        seen.add(_shapes(cell)[0])
        return Outcome(cell, "onnxruntime", stage=Stage.COMPARE)

    search(_cell(op(torch.mul, floats(2, 3), other=given([1.0, 2.0, 3.0]))), run)
    assert len(seen) > 3
    assert {columns for _, columns in seen} == {3}


def test_the_number_of_nodes_is_that_of_declared_sizes() -> None:
    declaration = op(torch.relu, floats(2, 3), nodes={7: 1})
    assert declaration.most_nodes(18, Dtype.FLOAT32) == 1
    seen: set[int | None] = set()

    def run(cell: Cell) -> Outcome:
        seen.add(cell.case.declaration.most_nodes(18, Dtype.FLOAT32))
        return Outcome(cell, "onnxruntime", stage=Stage.COMPARE)

    search(_cell(declaration), run)
    assert seen == {None}


def test_lists_stay_lists_of_any_length() -> None:
    seen: list[object] = []

    def run(cell: Cell) -> Outcome:
        seen.append(cell.case.declaration.asked(cell.shapes))
        return Outcome(cell, "onnxruntime", stage=Stage.COMPARE)

    declaration = op(torch.add, listed(floats(2), floats(2)), floats(2, 3), dynamic={"x0": ListOf(), "x1": {0: "rows"}})
    search(_cell(declaration), run)
    assert seen[0] == {"x0": ListOf()}


def test_layouts_keep_the_values() -> None:
    laid: dict[tuple[tuple[int, ...], tuple[int, ...]], torch.Tensor] = {}

    def run(cell: Cell) -> Outcome:
        (maker,) = cell.case.declaration.inputs
        tensor = maker.make(7, Dtype.FLOAT32)  # type: ignore[union-attr]
        laid[tuple(tensor.shape), tensor.stride()] = tensor
        return Outcome(cell, "onnxruntime", stage=Stage.COMPARE)

    search(_cell(op(torch.relu, floats(2, 3))), run)
    for (shape, _), tensor in laid.items():
        assert torch.equal(tensor, floats(*shape).make(7, Dtype.FLOAT32))
    assert len({shape for shape, _ in laid}) < len(laid), "no size was drawn in two layouts"


def test_only_operators_with_sizes_are_drawn() -> None:
    assert not can_be_drawn(op(torch.relu, floats(2), without_draws="it is only an example"))
    assert can_be_drawn(_PRODUCT)
    assert not can_be_drawn(op(torch.relu, given([1.0, 2.0])))
    assert not can_be_drawn(op(torch.relu, ints()))
    assert not can_be_drawn(model(torch.nn.ReLU, floats(2)))


def test_drawn_cells_are_of_the_full_tier() -> None:
    def drawn(tier: Tier) -> list[str]:
        return [cell.id for cell in cells_of("mm", _PRODUCT, Selection(tier=tier)) if "[drawn]" in cell.id]

    assert drawn(Tier.DEFAULT) == []
    assert drawn(Tier.FULL) == [f"mm[drawn]-float32-opset{opset}-cpu-trace-onnxruntime" for opset in (9, 18)]
