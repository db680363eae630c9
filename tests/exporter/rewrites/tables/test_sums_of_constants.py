"""Sums of a tensor and several constants."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.rewrites.tables.sums_of_constants import SUMS_OF_CONSTANTS
from tests.exporter.rewrites.models import assert_rewritten, assert_stays


def total(a: str = "float[2] a = {1, 2}", dtype: str = "float", more: str = "") -> str:
    return f"""({dtype}[3,2] x) => ({dtype}[3,2] y) <{a}, {dtype}[2] b = {{3, 4}}> {{
        s = Add (a, x)
        y = Add (s, b)
        {more}
    }}"""


def test_constants_are_added_first() -> None:
    assert_rewritten(
        SUMS_OF_CONSTANTS,
        total(),
        """(float[3,2] x) => (float[3,2] y) <float[2] a = {1, 2}, float[2] b = {3, 4}> {
            val_0 = Add (a, b)
            y = Add (x, val_0)
        }""",
        weights=["a"],
    )


def test_three_constants() -> None:
    assert_rewritten(
        SUMS_OF_CONSTANTS,
        total()
        .replace("y = Add (s, b)", "t = Add (s, b) y = Add (t, c)")
        .replace("a = ", "c = {5, 6}, float[2] a = ", 1),
        """(float[3,2] x) => (float[3,2] y) <float[2] c = {5, 6}, float[2] a = {1, 2}, float[2] b = {3, 4}> {
            val_0 = Add (a, b)
            val_1 = Add (val_0, c)
            y = Add (x, val_1)
        }""",
        weights=["a"],
    )


@pytest.mark.parametrize(
    ("text", "weights", "because"),
    [
        (total(), [], "it does not add two constants of which one is learned and as large as both together"),
        (
            total("float[3,1] a = {1, 2, 3}"),
            ["a"],
            "it does not add two constants of which one is learned and as large",
        ),
        (total("float16[2] a = {1, 2}", "float16"), ["a"], "sums of the dtype are rounded too much"),
        (
            total(more="v = Neg (s)").replace("y)", "y, float[3,2] v)", 1),
            ["a"],
            "it adds to no sum that is read here alone",
        ),
        (
            total(more="v = Neg (a)").replace("y)", "y, float[2] v)", 1),
            ["a"],
            "the larger constant is read elsewhere too",
        ),
    ],
)
def test_sums_that_stay(text: str, weights: list[str], because: str) -> None:
    assert_stays(SUMS_OF_CONSTANTS, text, because, weights=weights)


def test_weights_in_files_are_not_added() -> None:
    assert_stays(SUMS_OF_CONSTANTS, total(), "weights stay in their files", weights=["a"], keeps_weights=True)
