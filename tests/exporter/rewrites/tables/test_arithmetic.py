"""Arithmetic that one operator does rather than two."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.rewrites.tables.arithmetic import ARITHMETIC
from tests.exporter.rewrites.models import assert_rewritten, assert_stays


def test_a_product_with_the_reciprocal_of_a_root() -> None:
    assert_rewritten(
        ARITHMETIC,
        """(float[2] x, float[2] z) => (float[2] y, float[2] v) {
            s = Mul (z, z)
            root = Sqrt (s)
            inverse = Reciprocal (root)
            y = Mul (x, inverse)
            v = Mul (inverse, z)
        }""",
        """(float[2] x, float[2] z) => (float[2] y, float[2] v) {
            s = Mul (z, z)
            root = Sqrt (s)
            y = Div (x, root)
            v = Div (z, root)
        }""",
    )


def test_a_reciprocal_that_is_needed_otherwise_stays() -> None:
    text = """(float[2] x) => (float[2] y, float[2] v) {
        root = Sqrt (x)
        inverse = Reciprocal (root)
        y = Mul (x, inverse)
        v = Neg (inverse)
    }"""
    assert_stays(ARITHMETIC, text, "the reciprocal is needed for more than products")


def times(number: str, dtype: str = "float", to: int = 1) -> str:
    return f"""(bool[2] c) => ({dtype}[2] y) <{dtype} n = {{{number}}}> {{
        a = Cast <to = {to}> (c)
        y = Mul (a, n)
    }}"""


@pytest.mark.parametrize(("number", "dtype", "to", "zero"), [("2.5", "float", 1, "0.0"), ("-3", "int64", 7, "0")])
def test_a_condition_times_a_number(number: str, dtype: str, to: int, zero: str) -> None:
    after = f"""(bool[2] c) => ({dtype}[2] y) <{dtype} n = {{{number}}}, {dtype} y_number_0 = {{{zero}}}> {{
        y = Where (c, n, y_number_0)
    }}"""
    assert_rewritten(ARITHMETIC, times(number, dtype, to), after)


def test_conditions_times_what_may_not_give_0_stay() -> None:
    assert_stays(ARITHMETIC, times("-2.5"), "times 0, the number may not be 0")
    assert_stays(ARITHMETIC, times("2.5"), "no factor is the reciprocal of a root", opset=8)
    text = "(bool[2] c) => (float[2] y) <float n = {2.5}> { a = Cast <to = 1> (c) b = Mul (a, n) y = Sub (b, a) }"
    assert_stays(ARITHMETIC, text, "the condition is needed as a number elsewhere")


@pytest.mark.parametrize(("operator", "number"), [("Greater", "0"), ("Equal", "1")])
def test_a_condition_that_is_compared_as_a_number(operator: str, number: str) -> None:
    text = f"""(bool[2] c) => (bool[2] y) <int64 n = {{{number}}}> {{
        a = Cast <to = 7> (c)
        b = {operator} (a, n)
        y = Not (b)
    }}"""
    assert_rewritten(ARITHMETIC, text, "(bool[2] c) => (bool[2] y) { y = Not (c) }")
    assert_stays(ARITHMETIC, text.replace(f"{{{number}}}", "{2}"), "it compares with another number")
    assert_stays(ARITHMETIC, text.replace("b =", "y =").replace("y = Not (b)", ""), "its result is an output")
