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
        <int64[1] axes = {1}, int64[1] steps = {1}, int64[1] s_numbers_0 = {1}, int64[1] s_numbers_1 = {3}> {
        s = Slice (z, s_numbers_0, s_numbers_1, axes, steps)
        y = Abs (s)
    }"""
    assert_rewritten(JOINS, sliced(3, 5), after)


def test_slices_that_stay() -> None:
    assert_stays(JOINS, sliced(1, 3), "no part of what is sliced contains it")
    reason = "it is not known what is sliced, or it is sliced along several axes, or with a step"
    assert_stays(JOINS, sliced(0, 5, 2), reason)
