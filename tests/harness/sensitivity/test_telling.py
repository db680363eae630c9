"""Which alterations cases tell, and of which they cannot."""

from __future__ import annotations

import os
import signal

import pytest
import torch
from torch.nn import functional as F

from onnx_parity.harness.axes import Device, Dtype, Selection
from onnx_parity.harness.case import BATCH, Declaration, floats, given, numbers, op
from onnx_parity.harness.matrix.cells import cells_of
from onnx_parity.harness.sensitivity.alterations import DYNAMIC, NEGATIVE, Alteration, Kind
from onnx_parity.harness.sensitivity.looking import NotLookedAt, look_at_all
from onnx_parity.harness.sensitivity.tables import Row, rows_of
from onnx_parity.harness.sensitivity.telling import Looked, NotLookedAtError, look_at

BOTH = (torch.float32, torch.float64)
SMALL = given([[1.0, 2.0], [3.0, 4.0]])


def looked(declaration: Declaration, dtype: Dtype = Dtype.FLOAT32) -> Looked:
    return look_at(next(declaration.cases("case")), dtype, 0, dynamic=bool(declaration.dynamic))


def told(declaration: Declaration, dtype: Dtype = Dtype.FLOAT32) -> dict[str, bool]:
    return {str(alteration): tells for alteration, tells in looked(declaration, dtype).told}


def test_an_attribute_that_makes_no_difference_is_not_told() -> None:
    assert told(op(F.elu, floats(2, 3), alpha=0.5)) == {"elu(alpha) has its default": True}
    assert told(op(F.elu, floats(2, 3, low=0), alpha=0.5)) == {"elu(alpha) has its default": False}
    assert told(op(F.elu, floats(2, 3))) == {}


def test_a_tensor_may_stand_for_a_number() -> None:
    wide = told(op(lambda x: torch.full((2,), x[0], dtype=torch.float64), floats(3)))
    assert wide["full(dtype) has its default"]


def test_an_epsilon_is_told_beside_small_numbers() -> None:
    zero = "layer_norm(eps) is 0"
    assert not told(op(lambda x: F.layer_norm(x, (3,), eps=1e-8), floats(2, 3)))[zero]
    small = told(op(lambda x: F.layer_norm(x, (3,), eps=1e-8), floats(2, 3, low=0, high=1e-3)))
    assert small == {zero: True, "layer_norm(eps) has its default": True}


@pytest.mark.parametrize(
    ("values", "dtype", "is_told"),
    [(SMALL, Dtype.FLOAT64, False), (floats(2, 2), Dtype.FLOAT64, True), (given([[2.0**40]]), Dtype.INT64, True)],
)
def test_fewer_bits(values: object, dtype: Dtype, is_told: bool) -> None:
    wide = given([[2**40 + 1, 1], [1, 1]], dtype=torch.int64) if dtype is Dtype.INT64 else values
    declaration = op(lambda x: torch.cumprod(x, 0), wide, dtypes=BOTH if dtype is Dtype.FLOAT64 else ())  # type: ignore[arg-type]
    assert told(declaration, dtype)["cumprod is computed in fewer bits"] == is_told


def test_only_what_is_no_symmetrical_function_can_be_swapped() -> None:
    swapped = "sub has its first two inputs swapped"
    assert told(op(torch.add, floats(2, 3), floats(2, 3))) == {}
    assert told(op(torch.sub, floats(2, 3), floats(2, 3))) == {swapped: True}
    assert told(op(lambda x: torch.sub(x, x), floats(2, 3))) == {swapped: False}


def test_ties_along_static_and_dynamic_axes() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.sort(x, dim=0, descending=True, stable=True))

    turned = "sort has its ties turned"
    static = told(op(program, numbers(20, 2)))
    assert static[turned]
    assert f"{turned}, {DYNAMIC}" not in static
    assert told(op(program, numbers(20, 2), dynamic=BATCH))[f"{turned}, {DYNAMIC}"]
    assert not told(op(program, given([[1.0], [2.0]])))[turned]
    # torch does not say in which order equal elements are otherwise.
    assert turned not in told(op(lambda x: torch.sort(x, 0)[1], numbers(20, 2)))


def test_an_axis_counted_from_the_other_end() -> None:
    other = "stack(dim) is counted from the other end"
    assert told(op(lambda x: torch.stack((x, x), -1), floats(2, 2))) == {
        "stack(dim) has its default": True,
        other: True,
        f"{other}, {NEGATIVE}": True,
    }
    assert not told(op(lambda x: torch.stack((x, x), 1), given([[1.0, 1.0], [1.0, 1.0]])))[other]


def test_an_axis_that_becomes_empty() -> None:
    empty = f"mean is another value where the axis is empty, {DYNAMIC}"
    assert told(op(lambda x: x.mean(0), floats(2, 3), dynamic=BATCH, sizes={"batch": (0, 5)}))[empty]
    assert empty not in told(op(lambda x: x.mean(0), floats(2, 3)))


def test_casts_are_told_by_what_is_rounded() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float32).to(torch.int64)

    whole = "to does not round"
    assert told(op(program, given([2**24 + 1])), Dtype.INT64)[whole]
    assert not told(op(program, given([3])), Dtype.INT64)[whole]
    # The dtype of what is cast once is seen.
    assert whole not in told(op(lambda x: x.to(torch.float32), given([3])), Dtype.INT64)
    assert told(op(lambda x: x.view(torch.int32), floats(2, 3)))["view converts the values and not the bits"]


def test_what_is_random_is_not_looked_at() -> None:
    with pytest.raises(NotLookedAtError, match="other ones each time"):
        looked(op(lambda x: x + torch.rand(3), floats(3)))


def rows(*declarations: Declaration) -> dict[str, Row]:
    return {str(row): row for row in rows_of(map(looked, declarations))}


def test_rows_say_what_is_due() -> None:
    found = rows(op(lambda x: x.mean(1), floats(2, 3)), op(F.elu, floats(2, 3, low=0), alpha=0.5))
    elu = found["elu(alpha) has its default"]
    assert (elu.told, elu.blind, elu.is_told) == ({}, {"float32": ["case"]}, False)
    assert elu.what_would_tell == "inputs for which its value makes a difference, or another value"
    # Nothing gives these.
    for name in (
        "mean(keepdim) has its default",
        f"mean(dim) is counted from the other end, {NEGATIVE}",
        f"mean is another value where the axis is empty, {DYNAMIC}",
    ):
        assert (found[name].told, found[name].missing, found[name].is_told) == ({}, ["float32"], False), name
        assert found[name].what_would_tell.startswith("a case ")
    assert found["mean(dim) is counted from the other end"].is_told


def test_a_case_that_ends_its_process_is_left_out() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        lowest = F.elu(x, 0.5)
        if lowest[0] < -0.5:
            os.kill(os.getpid(), signal.SIGKILL)
        return lowest

    declarations = [op(program, floats(3, low=-9, high=-8)), op(F.elu, floats(3, low=-9, high=-8), alpha=0.5)]
    selection = Selection(devices=(Device.CPU,), opsets=(18,))
    cells = [next(cells_of("case", each, selection)) for each in declarations]
    steps: list[None] = []
    ended, other = look_at_all([(each, False) for each in cells], 0, 1, lambda: steps.append(None))
    assert isinstance(ended, NotLookedAt)
    assert ended.reason.startswith("its process was killed by SIGKILL")
    assert isinstance(other, Looked)
    assert other.told == [(Alteration("elu", Kind.DEFAULT, "alpha"), True)]
    assert len(steps) == 2
