"""Where the time of a run went: every second of every worker is in one part."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from onnx_parity.harness.record import Record, RunInfo
from onnx_parity.harness.results.profile import WorkerTime, describe_profile, profile_of
from tests.records import RECORD

STARTED = 1_769_854_500.0
INFO = RunInfo(id="1", started="2026-01-31T10:15:00+00:00", seed=0, tier="default")


def ran(worker: str, number: int, began: float, elapsed: float) -> Record:
    """A cell that spends three quarters of its time in two stages."""
    seconds = {"export": elapsed / 2, "run": elapsed / 4}
    return replace(
        RECORD, cell=f"{worker}-{number}", worker=worker, began=STARTED + began, elapsed=elapsed, seconds=seconds
    )


RECORDS = [ran("gw1", 0, 3.0, 4.0), ran("gw0", 1, 4.0, 4.0), ran("gw0", 0, 2.0, 1.0), ran("gw1", 1, 7.0, 3.0)]


def test_every_second_of_a_worker_is_in_one_part() -> None:
    found = profile_of(INFO, RECORDS)
    assert found is not None
    assert list(found.workers) == ["gw0", "gw1"]
    first = found.workers["gw0"]
    assert (first.cells, first.in_cells, first.between, first.before, first.after) == (2, 5.0, 1.0, 2.0, 2.0)
    assert isinstance(first, WorkerTime)
    parts = {part: seconds for part, seconds in found.parts().items() if seconds}
    assert parts == {
        "export": 6.0, "run": 3.0, "around the stages": 3.0, "between cells": 1.0, "before the first cell": 5.0,
        "after the last cell": 2.0,
    }  # fmt: skip
    # Two workers, and ten seconds from the start of the run to the end of its last cell.
    assert sum(parts.values()) == pytest.approx(2 * 10.0)


def test_the_tables_have_the_parts_and_the_workers() -> None:
    found = profile_of(INFO, RECORDS)
    assert found is not None
    assert list(describe_profile(found)) == [
        "part                     seconds   share  ms per cell",
        "export                       6.0   30.0%      1500.00",
        "run                          3.0   15.0%       750.00",
        "around the stages            3.0   15.0%       750.00",
        "between cells                1.0    5.0%       250.00",
        "before the first cell        5.0   25.0%      1250.00",
        "after the last cell          2.0   10.0%       500.00",
        "",
        "worker                     cells  in cells  between  before  after",
        "gw0                            2     5.0 s    1.0 s   2.0 s  2.0 s",
        "gw1                            2     7.0 s    0.0 s   3.0 s  0.0 s",
    ]


def test_cells_that_this_run_did_not_run_have_no_part() -> None:
    assert profile_of(INFO, [replace(record, carried="earlier") for record in RECORDS]) is None
    # Version 1 did not write when a cell began.
    assert profile_of(INFO, [replace(record, began=0.0) for record in RECORDS]) is None
