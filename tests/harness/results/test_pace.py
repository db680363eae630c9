"""The pace of a run: its progress, its rate, and the remaining time."""

from __future__ import annotations

import pytest

from onnx_parity.harness.pytest_plugin.pace import Pace, spell_seconds


def test_the_line_has_the_progress_the_rate_and_the_remaining_time() -> None:
    pace = Pace(total=1000)
    for number in range(400):
        pace.count(number * 0.02, failed=number % 200 == 7)
    assert pace.line() == "400 of 1000 cells, 50/s, 12 s left; 2 failed"


def test_the_rate_is_that_of_late_and_the_remaining_time_is_steady() -> None:
    pace = Pace(total=10_000)
    for number in range(1000):
        pace.count(number * 0.02, failed=False)
    assert pace.line().endswith(", 50/s, 3 min 0 s left")
    for number in range(40):
        pace.count(20.0 + number, failed=False)
    assert pace.rate == pytest.approx(1.0, rel=0.05)
    # With the last rate it would be 2.5 hours.
    assert pace.line().endswith(", 1.0/s, 8 min 29 s left")


def test_the_remaining_time_is_not_estimated_from_a_few_seconds() -> None:
    pace = Pace(total=10_000)
    for number in range(5):
        pace.count(float(number), failed=False)
    assert pace.line() == "5 of 10000 cells, 1.0/s"


def test_unknown_figures_are_left_out() -> None:
    pace = Pace()
    assert pace.line() == "0 cells"
    pace.count(5.0, failed=False)
    assert pace.line() == "1 cells"
    done = Pace(total=2)
    done.count(0.0, failed=False)
    done.count(1.0, failed=False)
    assert done.line() == "2 of 2 cells, 1.0/s"


def test_time_is_spelled() -> None:
    assert [spell_seconds(each) for each in (0.2, 59, 128, 3599, 7300)] == [
        "1 s",
        "59 s",
        "2 min 8 s",
        "59 min 59 s",
        "2 h 1 min",
    ]
