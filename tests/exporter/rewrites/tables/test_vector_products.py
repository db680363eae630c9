"""Products of transposed matrices and a vector."""

from __future__ import annotations

from onnx_parity.exporter.rewrites.order import REQUIRED
from tests.exporter.rewrites.models import assert_rewritten, assert_stays


def test_the_transpose_before_a_product_is_not_needed() -> None:
    assert_rewritten(
        REQUIRED,
        "(float[2,3,4] x, float[3] v) => (float[2,4] y) { a = Transpose <perm = [0, 2, 1]> (x) y = MatMul (a, v) }",
        "(float[2,3,4] x, float[3] v) => (float[2,4] y) { y = MatMul (v, x) }",
    )


def test_a_transpose_that_onnxruntime_may_move_to_the_product() -> None:
    assert_rewritten(
        REQUIRED,
        """(float[3,4] x, float[3] v) => (float[4] y) {
            a = Transpose <perm = [1, 0]> (x)
            b = Neg (a)
            y = MatMul (b, v)
        }""",
        """(float[3,4] x, float[3] v) => (float[4] y) {
            a = Transpose <perm = [1, 0]> (x)
            b = Neg (a)
            val_0 = Transpose <perm = [1, 0]> (b)
            y = MatMul (v, val_0)
        }""",
    )


def test_products_that_stay() -> None:
    assert_stays(
        REQUIRED, "(float[4,3] x, float[3] v) => (float[4] y) { y = MatMul (x, v) }", "no Transpose comes before it"
    )
    text = "(int32[3,4] x, int32[3] v) => (int32[4] y) { a = Transpose <perm = [1, 0]> (x) y = MatMul (a, v) }"
    assert_stays(REQUIRED, text, "onnxruntime does not fuse products of the dtype")
    text = "(float[3,4] x, float[3,1] v) => (float[4,1] y) { a = Transpose <perm = [1, 0]> (x) y = MatMul (a, v) }"
    assert_stays(REQUIRED, text, "it is no product of matrices with a vector on the right")
