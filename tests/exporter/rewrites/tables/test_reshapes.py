"""Reshapes of what was only reshaped before, and around other operators."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.rewrites.tables.reshapes import RESHAPES
from tests.exporter.rewrites.models import assert_rewritten, assert_stays


def test_a_shape_that_is_given_back() -> None:
    assert_rewritten(
        RESHAPES,
        """(float[2,3] x) => (float[2,3] y) <int64[1] flat = {6}, int64[2] back = {2, 3}> {
            a = Reshape (x, flat)
            b = Reshape (a, back)
            y = Neg (b)
        }""",
        "(float[2,3] x) => (float[2,3] y) { y = Neg (x) }",
    )


def test_unsqueezes_become_one() -> None:
    assert_rewritten(
        RESHAPES,
        """(float[2,3] x) => (float[1,2,1,3] y) <int64[1] first = {1}, int64[1] then = {0}> {
            a = Unsqueeze (x, first)
            y = Unsqueeze (a, then)
        }""",
        """(float[2,3] x) => (float[1,2,1,3] y) <int64[2] y_numbers_0 = {0, 2}> {
            y = Unsqueeze (x, y_numbers_0)
        }""",
    )


@pytest.mark.parametrize("first", ["Flatten <axis = 1> (x)", "Unsqueeze (x, flat)", "Reshape (x, other)"])
def test_a_reshape_of_what_was_reshaped(first: str) -> None:
    assert_rewritten(
        RESHAPES,
        f"""(float[2,3,4] x) => (float[6,4] y)
            <int64[1] flat = {{1}}, int64[3] other = {{4, 3, 2}}, int64[2] then = {{6, 4}}> {{
            a = {first}
            y = Reshape (a, then)
        }}""",
        "(float[2,3,4] x) => (float[6,4] y) <int64[2] then = {6, 4}> { y = Reshape (x, then) }",
    )


def test_a_size_of_0_is_that_of_another_tensor_s_axis_afterwards() -> None:
    text = """(float[N,{},4] x) => (float[N,6,2] y) <int64[2] flat = {{0, -1}}, int64[3] then = {{0, 6, 2}}> {{
        a = Reshape (x, flat)
        y = Reshape (a, then)
    }}"""
    after = "(float[N,3,4] x) => (float[N,6,2] y) <int64[3] y_numbers_0 = {0, 6, 2}> { y = Reshape (x, y_numbers_0) }"
    assert_rewritten(RESHAPES, text.format(3), after)


def test_a_reshape_that_is_read_twice_stays() -> None:
    text = """(float[2,3] x) => (float[3,2] y, float[6] v) <int64[1] flat = {6}, int64[2] then = {3, 2}> {
        a = Reshape (x, flat)
        y = Reshape (a, then)
        v = Neg (a)
    }"""
    reason = "it does not follow a reshape that is read here alone, or several sizes are dynamic"
    assert_stays(RESHAPES, text, reason)


def product(a: str, b: str, result: str) -> str:
    rank = result.count(",") + 1
    return f"""(float[{a}] a, float[{b}] b) => (float[{result}] y)
        <int64[3] first = {{6, 2, 2}}, int64[{rank}] then = {{{result}}}> {{
        c = Reshape (a, first)
        d = Reshape (b, first)
        e = MatMul (c, d)
        f = Reshape (e, then)
        y = Neg (f)
    }}"""


def test_a_batch_that_is_one_axis_of_a_product() -> None:
    after = "(float[2,3,2,2] a, float[2,3,2,2] b) => (float[2,3,2,2] y) { f = MatMul (a, b) y = Neg (f) }"
    assert_rewritten(RESHAPES, product("2,3,2,2", "2,3,2,2", "2,3,2,2"), after)


@pytest.mark.parametrize(
    ("a", "b", "result", "because"),
    [
        ("2,3,2,2", "3,2,2,2", "2,3,2,2", "the result has another batch than the factors had"),
        ("2,3,2,2", "2,3,2,2", "3,2,2,2", "the result has another batch than the factors had"),
        ("24", "24", "12,2", "sizes are not known, or a factor was a vector"),
        ("2,3,4,1", "2,3,2,2", "2,3,4,2", "more than the batch is reshaped"),
    ],
)
def test_batches_that_stay(a: str, b: str, result: str, because: str) -> None:
    assert_stays(RESHAPES, product(a, b, result), because)


def test_axes_are_taken_apart_before_a_transpose() -> None:
    assert_rewritten(
        RESHAPES,
        """(float[2,12] x) => (float[4,3,2] y) <int64[2] first = {6, 4}, int64[3] then = {4, 3, 2}> {
            a = Reshape (x, first)
            b = Transpose <perm = [1, 0]> (a)
            y = Reshape (b, then)
        }""",
        """(float[2,12] x) => (float[4,3,2] y) <int64[3] a_numbers_0 = {3, 2, 4}> {
            a = Reshape (x, a_numbers_0)
            y = Transpose <perm = [2, 0, 1]> (a)
        }""",
    )


def test_axes_of_size_1_are_added_before_padding() -> None:
    assert_rewritten(
        RESHAPES,
        """(float[12] x) => (float[6,1,4] y)
            <int64[2] first = {4, 3}, int64[4] p = {1, 0, 1, 1}, float f = {0}, int64[1] axes = {1}> {
            a = Reshape (x, first)
            b = Pad (a, p, f)
            y = Unsqueeze (b, axes)
        }""",
        """(float[12] x) => (float[6,1,4] y)
            <float f = {0}, int64[3] a_numbers_0 = {4, 1, 3}, int64[6] y_numbers_0 = {1, 0, 0, 1, 0, 1}> {
            a = Reshape (x, a_numbers_0)
            y = Pad (a, y_numbers_0, f)
        }""",
    )


def test_axes_that_become_one_after_a_transpose_stay() -> None:
    text = """(float[24] x) => (float[8,3] y) <int64[3] first = {2, 3, 4}, int64[2] then = {8, 3}> {
        a = Reshape (x, first)
        b = Transpose <perm = [2, 0, 1]> (a)
        y = Reshape (b, then)
    }"""
    assert_stays(RESHAPES, text, "axes become one, or sizes are not known")
