"""Operators that only onnxruntime has."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.rewrites.for_onnxruntime.operators import FOR_ONNXRUNTIME
from tests.exporter.rewrites.models import assert_rewritten, assert_stays

_WEIGHTS = "<float[4] scale = {1, 2, 3, 4}>"
_SKIP = "norm, , , total = com.microsoft.SkipSimplifiedLayerNormalization <epsilon: float = 0.01> (x, skip, scale)"


def test_norm_of_a_sum_that_is_read_elsewhere_too() -> None:
    assert_rewritten(
        FOR_ONNXRUNTIME,
        f"""(float[n,3,4] x, float[n,3,4] skip) => (float[n,3,4] norm, float[n,3,4] total) {_WEIGHTS} {{
            total = Add (x, skip)
            norm = RMSNormalization <axis = -1, epsilon = 0.01> (total, scale)
        }}""",
        f"(float[n,3,4] x, float[n,3,4] skip) => (float[n,3,4] norm, float[n,3,4] total) {_WEIGHTS} {{ {_SKIP} }}",
        opset=23,
    )


def test_norm_that_is_written_in_several_operators() -> None:
    assert_rewritten(
        FOR_ONNXRUNTIME,
        """(float[n,3,4] x, float[n,3,4] skip) => (float[n,3,4] norm, float[n,3,4] total)
            <float[4] scale = {1, 2, 3, 4}, float two = {2}, float epsilon = {0.01}, int64[1] axes = {-1}> {
            total = Add (x, skip)
            square = Pow (total, two)
            mean = ReduceMean <keepdims = 1> (square, axes)
            sum = Add (mean, epsilon)
            root = Sqrt (sum)
            quotient = Div (total, root)
            norm = Mul (scale, quotient)
        }""",
        f"(float[n,3,4] x, float[n,3,4] skip) => (float[n,3,4] norm, float[n,3,4] total) {_WEIGHTS} {{ {_SKIP} }}",
    )


@pytest.mark.parametrize(
    ("skip", "total", "because"),
    [
        ("float[4]", "Add (x, skip)", "the summands have not the same two or three axes"),
        ("float[n,3,4]", "Mul (x, skip)", "it normalizes no sum"),
    ],
)
def test_norms_that_stay(skip: str, total: str, because: str) -> None:
    text = f"""(float[n,3,4] x, {skip} skip) => (float[n,3,4] norm) {_WEIGHTS} {{
        total = {total}
        norm = RMSNormalization <axis = -1, epsilon = 0.01> (total, scale)
    }}"""
    assert_stays(FOR_ONNXRUNTIME, text, because, opset=23)


@pytest.mark.parametrize(
    ("weight", "because"),
    [
        (
            "DequantizeLinear <axis = 1> (integers, columns)",
            "its blocks are not those that onnxruntime has a kernel for",
        ),
        (
            "DequantizeLinear <axis = 0, block_size = 2> (integers, few)",
            "its blocks are not those that onnxruntime has a kernel for",
        ),
        (
            "DequantizeLinear <axis = 0, block_size = 16> (integers, given)",
            "the integers or their scales may be replaced",
        ),
    ],
)
def test_products_that_stay(weight: str, because: str) -> None:
    numbers = ", ".join(["1"] * 64)
    text = f"""(float[n,32] x, float[2,2] given) => (float[n,2] y)
        <int8[32,2] integers = {{{numbers}}}, float[2] columns = {{1, 2}},
         float[16,2] few = {{{numbers[: 3 * 31 + 1]}}}> {{
        weight = {weight}
        y = MatMul (x, weight)
    }}"""
    assert_stays(FOR_ONNXRUNTIME, text, because, opset=21)
