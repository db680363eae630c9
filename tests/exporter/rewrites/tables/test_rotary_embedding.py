"""The rotation of queries and keys by angles."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.rewrites.tables.rotary_embedding import ROTARY_EMBEDDING
from tests.exporter.rewrites.models import assert_rewritten, assert_stays

_BOUNDS = "int64[1] zero = {0}, int64[1] half = {2}, int64[1] end = {4}, int64[1] axes = {3}"
_ANGLES = f"{_BOUNDS}, int64[1] heads = {{1}}"


def rotated(cos: str, sin: str, parts: str = "second, first", between: str = "half") -> str:
    return f"""
        right = Slice (x, {between}, end, axes)
        left = Slice (x, zero, {between}, axes)
        turned_right = Neg (right)
        turned = Concat <axis = -1> ({parts.replace("second", "turned_right").replace("first", "left")})
        a = Mul (x, {cos})
        b = Mul ({sin}, turned)
        y = Add (a, b)
    """


def of_angles(angles: str = "Concat <axis = 2> (t, t)", **options: str) -> str:
    return f"""
        all = {angles}
        c = Cos (all)
        s = Sin (all)
        cos = Unsqueeze (c, heads)
        sin = Unsqueeze (s, heads)
        {rotated("cos", "sin", **options)}
    """


def graph(nodes: str, batch: str = "N", constants: str = _ANGLES, inputs: str = ", float[N,3,2] t") -> str:
    return f"(float[{batch},2,3,4] x{inputs}) => (float[{batch},2,3,4] y) <{constants}> {{ {nodes} }}"


def test_angles_that_are_computed() -> None:
    assert_rewritten(
        ROTARY_EMBEDDING,
        graph(of_angles()),
        """(float[N,2,3,4] x, float[N,3,2] t) => (float[N,2,3,4] y) {
            val_0 = Cos (t)
            val_1 = Sin (t)
            y = RotaryEmbedding (x, val_0, val_1)
        }""",
        opset=23,
    )


def test_angles_of_one_sample_are_repeated() -> None:
    assert_rewritten(
        ROTARY_EMBEDDING,
        graph(of_angles(), inputs=", float[1,3,2] t"),
        """(float[N,2,3,4] x, float[1,3,2] t) => (float[N,2,3,4] y) <int64[2] y_numbers_0 = {1, 1}> {
            val_0 = Cos (t)
            val_1 = Sin (t)
            val_2 = Shape <start = 0, end = 1> (x)
            val_3 = Concat <axis = 0> (val_2, y_numbers_0)
            val_4 = Expand (val_0, val_3)
            val_5 = Expand (val_1, val_3)
            y = RotaryEmbedding (x, val_4, val_5)
        }""",
        opset=23,
    )


def known(cos: str, sin: str) -> str:
    numbers = f"float[1,1,3,4] cos = {{{', '.join([cos] * 3)}}}, float[1,1,3,4] sin = {{{', '.join([sin] * 3)}}}"
    return graph(rotated("cos", "sin"), "1", f"{_BOUNDS}, {numbers}", "")


def test_angles_that_are_known() -> None:
    assert_rewritten(
        ROTARY_EMBEDDING,
        known("1, 0.5, 1, 0.5", "0, 0.8, 0, 0.8"),
        """(float[1,2,3,4] x) => (float[1,2,3,4] y) <
            float[1,3,2] y_table_0 = {1, 0.5, 1, 0.5, 1, 0.5}, float[1,3,2] y_table_1 = {0, 0.8, 0, 0.8, 0, 0.8}> {
            y = RotaryEmbedding (x, y_table_0, y_table_1)
        }""",
        opset=23,
    )


_EQUAL = "the angles have not two halves that are known to be equal"
_ROTATION = "it is not x * cos + concat(-x[half:], x[:half]) * sin"


@pytest.mark.parametrize(
    ("text", "because"),
    [
        (known("1, 0.5, 1, 0.6", "0, 0.8, 0, 0.8"), _EQUAL),
        (graph(of_angles("Concat <axis = 2> (t, u)"), inputs=", float[N,3,2] t, float[N,3,2] u"), _EQUAL),
        (graph(of_angles(parts="first, second")), _ROTATION),
        (graph(of_angles(between="zero"), constants=_ANGLES.replace("zero = {0}", "zero = {1}")), _ROTATION),
        (graph(of_angles(), inputs=", float[M,3,2] t"), "the angles have other sizes or another dtype than x"),
    ],
)
def test_rotations_that_stay(text: str, because: str) -> None:
    assert_stays(ROTARY_EMBEDDING, text, because, opset=23)


def test_a_weight_may_be_replaced_by_one_without_equal_halves() -> None:
    text = known("1, 0.5, 1, 0.5", "0, 0.8, 0, 0.8")
    assert_stays(ROTARY_EMBEDDING, text, "or are a weight's", opset=23, weights=["cos"])
