"""Tokens that are written into a cache of a fixed size."""

from __future__ import annotations

import pytest

from onnx_parity.exporter.rewrites.tables.cache_writes import CACHE_WRITES
from tests.exporter.rewrites.models import assert_rewritten, assert_stays

INPUTS = "float[{batch},4,32,8] cache, float[{batch},4,2,8] new, int64 place"


def text(positions: str, batch: str = "2", back: str = "1, 2, 0, 3") -> str:
    return f"""({INPUTS.format(batch=batch)}) => (float[{batch},4,32,8] y)
        <int64 zero = {{0}}, int64 one = {{1}}, int64 count = {{2}}, int64[1] axes = {{1}}> {{
        start = Abs (place)
        tokens = Transpose <perm = [2, 0, 1, 3]> (cache)
        moved = Transpose <perm = [2, 0, 1, 3]> (new)
        {positions}
        rows = Unsqueeze (places, axes)
        written = ScatterND (tokens, rows, moved)
        y = Transpose <perm = [{back}]> (written)
    }}"""


def test_tokens_from_a_position_on() -> None:
    assert_rewritten(
        CACHE_WRITES,
        text("numbers = Range (zero, count, one)\nplaces = Add (numbers, start)"),
        f"""({INPUTS.format(batch=2)}) => (float[2,4,32,8] y) <int64[1] y_numbers_0 = {{2}}> {{
            start = Abs (place)
            val_0 = Expand (start, y_numbers_0)
            y = TensorScatter <axis: int = 2> (cache, new, val_0)
        }}""",
        opset=24,
    )


def test_tokens_from_the_first_on() -> None:
    assert_rewritten(
        CACHE_WRITES,
        text("places = Range (zero, count, one)"),
        f"({INPUTS.format(batch=2)}) => (float[2,4,32,8] y) {{ y = TensorScatter <axis: int = 2> (cache, new) }}",
        opset=24,
    )


def test_a_dynamic_batch() -> None:
    assert_rewritten(
        CACHE_WRITES,
        text("numbers = Range (zero, count, one)\nplaces = Add (start, numbers)", batch="b"),
        f"""({INPUTS.format(batch="b")}) => (float[b,4,32,8] y) {{
            start = Abs (place)
            val_0 = Shape <start: int = 0, end: int = 1> (cache)
            val_1 = Expand (start, val_0)
            y = TensorScatter <axis: int = 2> (cache, new, val_1)
        }}""",
        opset=24,
    )


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (text("places = Range (zero, count, start)"), "the positions are not known to follow each other"),
        (
            text("numbers = Range (zero, count, one)\nplaces = Mul (numbers, start)"),
            "the positions are not known to follow each other",
        ),
        (
            text("places = Range (zero, count, one)", back="0, 1, 2, 3"),
            "it does not move the axes back to where they were",
        ),
    ],
)
def test_other_writes_stay(model: str, reason: str) -> None:
    assert_stays(CACHE_WRITES, model, reason, opset=24)
