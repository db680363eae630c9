"""Expansions that the operators after them do themselves."""

from __future__ import annotations

from onnx_parity.exporter.rewrites.tables.expansions import EXPANSIONS
from tests.exporter.rewrites.models import assert_rewritten, assert_stays


def expanded(after: str, result: str = "float[3,4] y") -> str:
    return f"""(float[3,4] x, float[1,4] row) => ({result}) <int64[2] sizes = {{3, 4}}> {{
        wide = Expand (row, sizes)
        {after}
    }}"""


def test_an_expansion_before_operators_that_broadcast() -> None:
    assert_rewritten(
        EXPANSIONS,
        expanded("a = Neg (wide) y = Add (x, a)"),
        "(float[3,4] x, float[1,4] row) => (float[3,4] y) { a = Neg (row) y = Add (x, a) }",
    )


def test_each_of_two_expansions_has_an_axis_of_the_result() -> None:
    assert_rewritten(
        EXPANSIONS,
        """(float[1,4] row, float[3,1] column) => (float[3,4] y) <int64[2] sizes = {3, 4}> {
            a = Expand (row, sizes)
            b = Expand (column, sizes)
            y = Mul (a, b)
        }""",
        "(float[1,4] row, float[3,1] column) => (float[3,4] y) { y = Mul (row, column) }",
    )


def test_a_filled_tensor_is_a_number() -> None:
    assert_rewritten(
        EXPANSIONS,
        """(float[3] x) => (float[3] y) <int64[1] sizes = {3}> {
            a = ConstantOfShape <value: tensor = float[1] {2.5}> (sizes)
            y = Mul (x, a)
        }""",
        "(float[3] x) => (float[3] y) <float a_number_0 = {2.5}> { y = Mul (x, a_number_0) }",
    )


def test_expansions_that_stay() -> None:
    assert_stays(EXPANSIONS, expanded("y = Neg (wide)"), "an output would become smaller")
    reason = "an operator that does not broadcast would read a smaller tensor"
    assert_stays(EXPANSIONS, expanded("y = ReduceSum <keepdims = 0> (wide)", "float y"), reason)
    assert_stays(EXPANSIONS, expanded("y = Max (x, wide)"), reason, opset=7)
    text = "(float[N] x, float[1] row, int64[1] sizes) => (float[M] y) { wide = Expand (row, sizes) y = Add (x, wide) }"
    assert_stays(EXPANSIONS, text, "the sizes after it are not known")
    fill = "ConstantOfShape <value: tensor = float[1] {2.5}> (sizes)"
    text = f"(float[N,M] x, int64[1] sizes) => (float[N,M] y) {{ wide = {fill} y = Add (x, wide) }}"
    assert_stays(EXPANSIONS, text, "the sizes after it are not known")


def test_a_number_of_float64_would_be_rounded() -> None:
    text = """(double[3] x) => (double[3] y) <int64[1] sizes = {3}> {
        a = ConstantOfShape <value: tensor = double[1] {0.1}> (sizes)
        y = Mul (x, a)
    }"""
    assert_stays(EXPANSIONS, text, "onnxruntime would round the number to float32")
