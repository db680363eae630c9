"""Elements that are repeated along an axis."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.rewrites.tables.repeats import REPEATS
from tests.exporter.rewrites.models import assert_rewritten, assert_stays


@pytest.mark.parametrize(("axis", "sizes", "indices"), [(2, "1,1,2,1", "0, 0, 1, 1"), (1, "1,2,1,1", "0, 1, 0, 1")])
def test_repeats_of_one_axis(axis: int, sizes: str, indices: str) -> None:
    assert_rewritten(
        REPEATS,
        f"""(float[5,2,3] x) => (float[5,4,3] y)
            <int64[1] axes = {{{axis}}}, int64[4] sizes = {{{sizes}}}, int64[3] wanted = {{5, 4, 3}}> {{
            a = Unsqueeze (x, axes)
            b = Expand (a, sizes)
            y = Reshape (b, wanted)
        }}""",
        f"(float[5,2,3] x) => (float[5,4,3] y) <int64[4] y_numbers_0 = {{{indices}}}> "
        "{ y = Gather <axis = 1> (x, y_numbers_0) }",
    )


def test_repeats_that_stay() -> None:
    text = """(float[5,2,3] x) => (float[4,5,3] y)
        <int64[1] axes = {2}, int64[4] sizes = {1, 1, 2, 1}, int64[3] wanted = {4, 5, 3}> {
        a = Unsqueeze (x, axes)
        b = Expand (a, sizes)
        y = Reshape (b, wanted)
    }"""
    assert_stays(REPEATS, text, "it does more than repeat elements of one axis")
    text = "(float[2,3] x) => (float[6] y) <int64[1] wanted = {6}> { y = Reshape (x, wanted) }"
    assert_stays(REPEATS, text, "it does not reshape what was expanded along a new axis")
