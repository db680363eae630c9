"""Sigmoids of which every digit counts are quotients; others stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import onnx_parity
from onnx_parity.exporter.rewrites.precise_sigmoids import PRECISE_SIGMOIDS
from tests.exporter.rewrites.models import assert_rewritten, assert_stays


def test_below_a_logarithm() -> None:
    assert_rewritten(
        PRECISE_SIGMOIDS,
        "(float[2] x) => (float[2] y) { a = Sigmoid (x) y = Log (a) }",
        """(float[2] x) => (float[2] y) <float a_number_0 = {1}> {
            val_0 = Neg (x) val_1 = Exp (val_0) val_2 = Add (val_1, a_number_0) a = Reciprocal (val_2) y = Log (a)
        }""",
    )


def test_that_nothing_divides_by() -> None:
    assert_stays(
        PRECISE_SIGMOIDS,
        "(float[2] x) => (float[2] y) { a = Sigmoid (x) b = Mul (a, x) y = Div (b, x) }",
        "nothing divides by it or takes its logarithm or its root",
    )


SMALL = torch.tensor([-120.0, -100.0, -80.0, -40.0, -20.0, -17.0, -9.0, -1.0, 0.0, 3.0, 16.0, 17.0, 30.0])
PROGRAMS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: torch.log(torch.sigmoid(x)),
    lambda x: torch.log(torch.sigmoid(x).clamp(min=1e-7)),
    lambda x: F.binary_cross_entropy(torch.sigmoid(x), torch.full_like(x, 0.3), reduction="none"),
    lambda x: torch.logit(torch.sigmoid(x), 1e-6),
    lambda x: 1 / (torch.sigmoid(x) + 1e-9),
    lambda x: torch.sqrt(torch.sigmoid(x)[None].transpose(0, 1)),
]


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("program", PROGRAMS)
def test_small_sigmoids(program: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype, optimize: bool) -> None:
    x = SMALL.to(dtype)
    exported = onnx_parity.export(program, (x,), optimize=optimize)
    # What 1 is rounded by is all that is left of 1 less a sigmoid near it.
    torch.testing.assert_close(exported(x), program(x), rtol=3e-6, atol=0)


def test_the_square_of_a_small_number_does_not_decide() -> None:
    assert_stays(
        PRECISE_SIGMOIDS,
        "(float[2] x) => (float[2] y) <float two = {2}> { a = Sigmoid (x) y = Pow (a, two) }",
        "nothing divides by it or takes its logarithm or its root",
    )
    assert_rewritten(
        PRECISE_SIGMOIDS,
        "(float[2] x) => (float[2] y) <float half = {0.5}> { a = Sigmoid (x) y = Pow (a, half) }",
        """(float[2] x) => (float[2] y) <float half = {0.5}, float a_number_0 = {1}> {
            val_0 = Neg (x) val_1 = Exp (val_0) val_2 = Add (val_1, a_number_0) a = Reciprocal (val_2)
            y = Pow (a, half)
        }""",
    )
