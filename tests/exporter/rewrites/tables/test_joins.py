"""Joins of joins, and slices of joins."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.rewrites.tables.joins import JOINS
from tests.exporter.rewrites.models import assert_rewritten, assert_stays


def test_a_join_of_joins_along_one_axis() -> None:
    assert_rewritten(
        JOINS,
        """(float[2,1] x) => (float[2,4] y) {
            a = Concat <axis = 1> (x, x)
            b = Neg (x)
            y = Concat <axis = 1> (b, a, x)
        }""",
        "(float[2,1] x) => (float[2,4] y) { b = Neg (x) y = Concat <axis = 1> (b, x, x, x) }",
    )


def test_an_empty_part_is_left_out() -> None:
    assert_rewritten(
        JOINS,
        "(float[2,0] e, float[2,1] x) => (float[2,1] y) { a = Concat <axis = 1> (e, x) y = Neg (a) }",
        "(float[2,0] e, float[2,1] x) => (float[2,1] y) { y = Neg (x) }",
    )


@pytest.mark.parametrize("inner", ["<axis = 0> (x, x)", "<axis = 1> (x, x)"])
def test_joins_that_stay(inner: str) -> None:
    """One is along another axis, and the other is read twice."""
    text = f"""(float[2,2] x, float[4,2] z) => (float[4,4] y, float[M,N] v) {{
        a = Concat {inner}
        y = Concat <axis = {1 if "axis = 0" in inner else 0}> ({"a, z" if "axis = 0" in inner else "a, a"})
        v = Neg (a)
    }}"""
    assert_stays(JOINS, text, "no part is empty, or a join along the same axis that is read here alone")


def sliced(start: int, stop: int, step: int = 1) -> str:
    return f"""(float[2,2] x, float[2,3] z) => (float[2,N] y)
        <int64[1] b = {{{start}}}, int64[1] e = {{{stop}}}, int64[1] axes = {{1}}, int64[1] steps = {{{step}}}> {{
        a = Neg (x)
        j = Concat <axis = 1> (a, z, x)
        s = Slice (j, b, e, axes, steps)
        y = Abs (s)
    }}"""


def test_a_slice_that_is_a_part() -> None:
    assert_rewritten(JOINS, sliced(2, 5), "(float[2,2] x, float[2,3] z) => (float[2,N] y) { y = Abs (z) }")


def test_a_slice_of_several_parts() -> None:
    after = """(float[2,2] x, float[2,3] z) => (float[2,N] y) {
        a = Neg (x)
        s = Concat <axis = 1> (a, z)
        y = Abs (s)
    }"""
    assert_rewritten(JOINS, sliced(0, 5), after)


def test_a_slice_within_a_part() -> None:
    after = """(float[2,2] x, float[2,3] z) => (float[2,N] y)
        <int64[1] s_numbers_0 = {1}, int64[1] s_numbers_1 = {3}> {
        s = Slice (z, s_numbers_0, s_numbers_1, s_numbers_0)
        y = Abs (s)
    }"""
    assert_rewritten(JOINS, sliced(3, 5), after)


def test_slices_that_stay() -> None:
    assert_stays(JOINS, sliced(1, 3), "no part of what is sliced contains it")
    reason = "it is not known what is sliced, or it is sliced along several axes, or with a step"
    assert_stays(JOINS, sliced(0, 5, 2), reason)


def test_the_last_of_joins_that_read_each_other_has_all_parts() -> None:
    before = """(float[2,4] z, float[2,1] x) => (float[2,4] y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] far = {9}> {
        before = Slice (z, zero, one, one)
        after = Slice (z, two, far, one)
        first = Concat <axis = 1> (before, x, after)
        before_2 = Slice (first, zero, two, one)
        after_2 = Slice (first, three, far, one)
        y = Concat <axis = 1> (before_2, x, after_2)
    }"""
    after = """(float[2,4] z, float[2,1] x) => (float[2,4] y)
        <int64[1] zero = {0}, int64[1] one = {1},
         int64[1] y_numbers_0 = {3}, int64[1] y_numbers_1 = {4}, int64[1] y_numbers_2 = {1}> {
        before = Slice (z, zero, one, one)
        val_0 = Slice (z, y_numbers_0, y_numbers_1, y_numbers_2)
        y = Concat <axis = 1> (before, x, x, val_0)
    }"""
    assert_rewritten(JOINS, before, after)


def element(index: int, inner: str) -> str:
    return f"""(float[2] x, float[2,3] z) => (float[2] y) <int64[1] axes = {{1}}, int64 i = {{{index}}}> {{
        a = {inner}
        j = Concat <axis = 1> (z, a, z)
        e = Gather <axis = 1> (j, i)
        y = Abs (e)
    }}"""


def test_an_element_of_a_join() -> None:
    assert_rewritten(
        JOINS, element(3, "Unsqueeze (x, axes)"), "(float[2] x, float[2,3] z) => (float[2] y) { y = Abs (x) }"
    )
    after = """(float[2] x, float[2,3] z) => (float[2] y) <int64 e_number_0 = {2}> {
        e = Gather <axis = 1> (z, e_number_0)
        y = Abs (e)
    }"""
    assert_rewritten(JOINS, element(-1, "Unsqueeze (x, axes)"), after)


def test_an_element_that_stays() -> None:
    text = "(float[2,2] x, int64 i) => (float[2] y) { j = Concat <axis = 1> (x, x) y = Gather <axis = 1> (j, i) }"
    assert_stays(JOINS, text, "it is not known which one element it reads along the axis")
