"""Operators that leave an operand as it is."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.rewrites.tables.neutral_operands import NEUTRAL_OPERANDS
from tests.exporter.rewrites.models import assert_rewritten, assert_stays


def beside(operator: str, number: str, then: str = "MatMul (a, a)", order: str = "x, n") -> str:
    return f"""(float[2,2] x) => (float[2,2] y) <float n = {{{number}}}> {{
        a = {operator} ({order})
        y = {then}
    }}"""


@pytest.mark.parametrize(
    ("operator", "number", "order"),
    [("Mul", "1", "x, n"), ("Mul", "1", "n, x"), ("Div", "1", "x, n"), ("Add", "0", "n, x"), ("Sub", "0", "x, n")],
)
def test_a_neutral_operand(operator: str, number: str, order: str) -> None:
    after = "(float[2,2] x) => (float[2,2] y) { y = MatMul (x, x) }"
    assert_rewritten(NEUTRAL_OPERANDS, beside(operator, number, order=order), after)


def test_one_condition_twice() -> None:
    before = "(bool[2] x) => (bool[2] y) { a = And (x, x) b = Or (a, a) y = Not (b) }"
    assert_rewritten(NEUTRAL_OPERANDS, before, "(bool[2] x) => (bool[2] y) { y = Not (x) }")


@pytest.mark.parametrize(
    ("text", "because"),
    [
        (beside("Mul", "2"), "the constant changes the operand"),
        (beside("Div", "1", order="n, x"), "no operand has the shape of the result"),
        (beside("Sub", "-0.0"), "x - (-0.0) is x + 0.0, which is 0.0 for -0.0"),
        (beside("Add", "0", "Reciprocal (a)"), "-0.0 + 0.0 is 0.0, and an output may show the sign"),
        (beside("Mul", "1").replace("a =", "y =").replace("y = MatMul (a, a)", ""), "its result is an output"),
    ],
)
def test_operands_that_stay(text: str, because: str) -> None:
    assert_stays(NEUTRAL_OPERANDS, text, because)


def test_a_weight_may_be_replaced_whatever_it_is_now() -> None:
    assert_stays(NEUTRAL_OPERANDS, beside("Mul", "1"), "no operand is a constant", weights=["n"])


def test_an_operand_that_is_broadcast_stays() -> None:
    text = """(float[1,2] x) => (float[2,2] y) <float[2,1] n = {1, 1}> {
        a = Mul (x, n)
        y = MatMul (a, a)
    }"""
    assert_stays(NEUTRAL_OPERANDS, text, "no operand has the shape of the result")
