"""Biases of quantized layers at opset 10."""

from __future__ import annotations

from onnx_parity.exporter.rewrites.order import REQUIRED
from tests.exporter.rewrites.models import assert_rewritten, assert_stays

_WEIGHT = "float scale = {0.5}, float[2] b = {1, 2}"


def test_the_bias_of_a_convolution() -> None:
    assert_rewritten(
        REQUIRED,
        f"""(float[1,1,2,2] x) => (float[1,2,2,2] y) <int8[2,1,1,1] w = {{1, 2}}, int8 zero = {{0}}, {_WEIGHT}> {{
            d = DequantizeLinear (w, scale, zero)
            y = Conv <kernel_shape = [1, 1]> (x, d, b)
        }}""",
        f"""(float[1,1,2,2] x) => (float[1,2,2,2] y) <int8[2,1,1,1] w = {{1, 2}}, int8 zero = {{0}}, {_WEIGHT}> {{
            d = DequantizeLinear (w, scale, zero)
            val_0 = Conv <kernel_shape = [1, 1]> (x, d)
            val_1 = Neg (b)
            val_2 = Unsqueeze <axes = [1, 2]> (val_1)
            y = Sub (val_0, val_2)
        }}""",
        opset=10,
    )


def test_the_bias_of_a_linear_layer() -> None:
    assert_rewritten(
        REQUIRED,
        f"""(float[3,1] x) => (float[3,2] y) <int8[2,1] w = {{1, 2}}, int8 zero = {{0}}, {_WEIGHT}> {{
            d = DequantizeLinear (w, scale, zero)
            y = Gemm <transB = 1> (x, d, b)
        }}""",
        f"""(float[3,1] x) => (float[3,2] y) <int8[2,1] w = {{1, 2}}, int8 zero = {{0}}, {_WEIGHT}> {{
            d = DequantizeLinear (w, scale, zero)
            val_0 = Transpose <perm = [1, 0]> (d)
            val_1 = MatMul (x, val_0)
            val_2 = Neg (b)
            y = Sub (val_1, val_2)
        }}""",
        opset=10,
    )


def test_biases_that_stay() -> None:
    text = "(float[3,1] x, float[2,1] w, float[2] b) => (float[3,2] y) { y = Gemm <transB = 1> (x, w, b) }"
    assert_stays(REQUIRED, text, "it is not quantized", opset=10)
