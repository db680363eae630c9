"""The texts of figures, dates, opsets, commands and long messages."""

from __future__ import annotations

import pytest

from onnx_parity.reports import wording


@pytest.mark.parametrize(("opsets", "words"), [([9, 7, 8, 12, 12], "7–9, 12"), ([18], "18"), ([7, 8], "7–8"), ([], "")])
def test_opset_ranges(opsets: list[int], words: str) -> None:
    assert wording.opset_ranges(opsets) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(2e-6, "2 µs"), (0.0031, "3.1 ms"), (1.25, "1.2 s"), (754.0, "12 min 34 s")]
)
def test_duration(seconds: float, words: str) -> None:
    assert wording.duration(seconds) == words


@pytest.mark.parametrize(
    ("iso", "words"),
    [
        ("2026-01-31T10:15:00Z", "31 January 2026, 10:15 UTC"),
        ("2026-01-31T10:15:00", "31 January 2026, 10:15 UTC"),
        ("2026-01-31T10:15:00+02:00", "31 January 2026, 08:15 UTC"),
        ("yesterday", "yesterday"),
    ],
)
def test_instant(iso: str, words: str) -> None:
    assert wording.instant(iso) == words


def test_a_long_message_keeps_its_head_and_its_tail() -> None:
    excerpt = wording.message_excerpt("a" * 3000 + "b" * 50_000 + "c" * 1000)
    assert excerpt == (
        "a" * 3000 + "\n\n[… 50,000 characters are left out; the run's records-*.jsonl contain them …]\n\n" + "c" * 1000
    )
