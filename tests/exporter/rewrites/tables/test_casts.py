"""Casts that are undone."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.rewrites.tables.casts import CASTS
from tests.exporter.rewrites.models import assert_rewritten, assert_stays


def round_trip(dtype: str, there: int, back: int, result: str) -> str:
    return f"""({dtype}[2] x) => ({result}[2] y) {{
        a = Cast <to = {there}> (x)
        b = Cast <to = {back}> (a)
        y = Mul (b, b)
    }}"""


@pytest.mark.parametrize(("dtype", "there", "back"), [("float16", 1, 10), ("int32", 11, 6), ("float", 11, 1)])
def test_a_cast_to_a_wider_dtype_and_back(dtype: str, there: int, back: int) -> None:
    after = f"({dtype}[2] x) => ({dtype}[2] y) {{ y = Mul (x, x) }}"
    assert_rewritten(CASTS, round_trip(dtype, there, back, dtype), after)


def test_an_output_that_is_an_input_too_is_an_identity() -> None:
    before = "(float16[2] x) => (float16[2] y) { a = Cast <to = 1> (x) y = Cast <to = 10> (a) }"
    assert_rewritten(CASTS, before, "(float16[2] x) => (float16[2] y) { y = Identity (x) }")


@pytest.mark.parametrize(
    ("dtype", "there", "back", "result", "because"),
    [
        ("float", 10, 1, "float", "the first cast loses numbers"),
        ("int32", 1, 6, "int32", "the first cast loses numbers"),
        ("float16", 11, 1, "float", "it casts to another dtype than that before the first cast"),
    ],
)
def test_casts_that_stay(dtype: str, there: int, back: int, result: str, because: str) -> None:
    assert_stays(CASTS, round_trip(dtype, there, back, result), because)
