"""Linear layers that are given a tensor with all its axes."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.rewrites.tables.linear_layers import LINEAR_LAYERS
from tests.exporter.rewrites.models import assert_rewritten, assert_stays

_BIAS = "float[2] b = {1, 2}"


def layer(node: str, weight: str = "3,2", result: str = "N,4,2", then: str = "0, 4, 2", more: str = "") -> str:
    rank = then.count(",") + 1
    return f"""(float[2,4,3] x) => (float[{result.replace("N", "2")}] y)
        <int64[2] first = {{-1, 3}}, float[{weight}] w = {{1, 2, 3, 4, 5, 6}}, {_BIAS},
         int64[{rank}] then = {{{then}}}> {{
        rows = Reshape (x, first)
        p = {node}
        y = Reshape (p, then)
        {more}
    }}"""


def test_a_gemm_of_rows() -> None:
    assert_rewritten(
        LINEAR_LAYERS,
        layer("Gemm (rows, w, b)", then="2, 4, 2"),
        f"""(float[2,4,3] x) => (float[2,4,2] y) <float[3,2] w = {{1, 2, 3, 4, 5, 6}}, {_BIAS}> {{
            p = MatMul (x, w)
            y = Add (p, b)
        }}""",
    )


def test_a_weight_is_transposed_for_folding() -> None:
    assert_rewritten(
        LINEAR_LAYERS,
        layer("Gemm <transB = 1> (rows, w)", weight="2,3", then="2, 4, 2"),
        """(float[2,4,3] x) => (float[2,4,2] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}> {
            val_0 = Transpose <perm = [1, 0]> (w)
            y = MatMul (x, val_0)
        }""",
    )


@pytest.mark.parametrize(
    ("text", "because"),
    [
        (layer("Gemm <alpha = 2.0> (rows, w)", then="2, 4, 2"), "read by something else than a product with a matrix"),
        (
            layer("MatMul (rows, w)", result="4,2,2", then="4, 2, 2"),
            "the product is given other axes than the rows had",
        ),
        (layer("MatMul (rows, w)", then="2, 4, 2", more="v = Neg (p)").replace("y)", "y, float[8,2] v)", 1), "read by"),
        (
            layer("MatMul (rows, w)", then="2, 4, 2", more="v = Neg (rows)").replace("y)", "y, float[8,3] v)", 1),
            "read by",
        ),
        (layer("Abs (rows)", result="4,2,3", then="4, 2, 3"), "it does not reshape a product of reshaped rows"),
    ],
)
def test_layers_that_stay(text: str, because: str) -> None:
    assert_stays(LINEAR_LAYERS, text, because)


def test_a_weight_in_a_file_is_not_transposed() -> None:
    text = layer("Gemm <transB = 1> (rows, w)", weight="2,3", then="2, 4, 2")
    assert_stays(LINEAR_LAYERS, text, "the weight cannot be stored transposed", keeps_weights=True)
