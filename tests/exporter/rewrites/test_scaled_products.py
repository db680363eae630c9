"""Factors of float64 beside products of matrices."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.rewrites.order import REQUIRED
from tests.exporter.rewrites.models import assert_rewritten, assert_stays

_TENTH = "double factor = {0.1}"


def test_a_factor_after_the_product() -> None:
    assert_rewritten(
        REQUIRED,
        f"(double[2,3] x, double[3,4] y) => (double[2,4] z) <{_TENTH}> {{ a = MatMul (x, y) z = Mul (factor, a) }}",
        f"""(double[2,3] x, double[3,4] y) => (double[2,4] z) <{_TENTH}> {{
            a = MatMul (x, y)
            val_0 = Sum (a)
            z = Mul (factor, val_0)
        }}""",
    )


def test_a_factor_before_the_product_and_its_transpose() -> None:
    assert_rewritten(
        REQUIRED,
        f"""(double[3,2] x, double[3,4] y) => (double[2,4] z) <{_TENTH}> {{
            a = Mul (x, factor)
            b = Transpose <perm = [1, 0]> (a)
            z = MatMul (b, y)
        }}""",
        f"""(double[3,2] x, double[3,4] y) => (double[2,4] z) <{_TENTH}> {{
            val_0 = Mul (x, factor)
            a = Sum (val_0)
            b = Transpose <perm = [1, 0]> (a)
            z = MatMul (b, y)
        }}""",
    )


def test_a_divisor_beyond_a_factor_that_float32_has() -> None:
    assert_rewritten(
        REQUIRED,
        """(double[2,3] x, double[3,4] y) => (double[2,4] z) <double[1] half = {0.5}, double three = {3}> {
            a = MatMul (x, y)
            b = Mul (a, half)
            z = Div (b, three)
        }""",
        """(double[2,3] x, double[3,4] y) => (double[2,4] z) <double[1] half = {0.5}, double three = {3}> {
            a = MatMul (x, y)
            b = Mul (a, half)
            val_0 = Sum (b)
            z = Div (val_0, three)
        }""",
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("<double c = {0.1}> { a = Mul (x, c) z = Add (a, y) }", "no product of matrices is beside it"),
        ("<double c = {0.5}> { a = MatMul (x, y) z = Mul (a, c) }", "float32 has the factor"),
        ("<double c = {4}> { a = MatMul (x, y) z = Div (a, c) }", "float32 has the factor"),
        ("<double c = {0.1}> { a = MatMul (x, y) z = Div (c, a) }", "no operand is a constant number"),
        ("<double[2] c = {0.1, 0.2}> { a = MatMul (x, y) z = Mul (a, c) }", "no operand is a constant number"),
    ],
)
def test_factors_that_stay(body: str, reason: str) -> None:
    assert_stays(REQUIRED, f"(double[2,2] x, double[2,2] y) => (double[2,2] z) {body}", reason)


def test_a_factor_of_float32_stays() -> None:
    text = "(float[2,2] x, float[2,2] y) => (float[2,2] z) <float c = {0.1}> { a = MatMul (x, y) z = Mul (a, c) }"
    assert_stays(REQUIRED, text, "it is no float64")
