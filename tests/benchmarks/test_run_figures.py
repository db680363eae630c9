"""The figures of a run, from records that are made for the test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from msgspec.structs import replace
from typer.testing import CliRunner

from benchmarks import run_figures
from benchmarks.run_figures import RunFigures, main, read_figures, told
from onnx_parity.harness.record import Record
from tests.records import INFO, RECORD


def cells(worker: str, count: int, *, memory: tuple[int, int] = (500, 500), share: float = 0.1) -> list[Record]:
    """Cells of 10 ms, the harness's share of which is `share`, that come one right after the other."""
    busy = {"export": 0.006 * (1 - share), "run": 0.003 * (1 - share), "compare": 0.001 * (1 - share)}
    return [
        replace(
            RECORD, cell=f"{worker}-{number}", worker=worker, began=1000 + number / 100, elapsed=0.01, seconds=busy,
            memory=memory[0] + (memory[1] - memory[0]) * number // count,
        )
        for number in range(count)
    ]  # fmt: skip


def figures(records: Sequence[Record]) -> RunFigures | None:
    return run_figures.figures(INFO, records)


def test_pace_share_and_memory_come_from_the_records() -> None:
    found = figures([*cells("gw0", 1000), *cells("gw1", 500, memory=(400, 800))])
    assert found is not None
    assert found.rate() == pytest.approx(150)
    assert found.share() == pytest.approx(0.1)
    assert found.memory["gw0"] == (500, 500)
    # From the median of the second tenth, 460, to that of the last, 780.
    assert found.growth() == pytest.approx(780 / 460 - 1, abs=0.01)
    assert told(found) == [
        "pace: 150 cells a second (over 150: short)",
        "the harness's share of the time: 10.0% (under 20%: ok)",
        "a cell: build 0.00 ms, reference 0.00 ms, export 5.40 ms, check 0.00 ms, transform 0.00 ms, load 0.00 ms, "
        "run 2.70 ms, compare 0.90 ms, rerun_sizes 0.00 ms, rerun_values 0.00 ms, around the stages 1.00 ms, "
        "between cells 0.00 ms",
        "memory: grew by 69.6% at most (under 25%: short)",
        "  gw0: 1000 cells in 10.0 s, 500 MiB in its second tenth, 500 at most",
        "  gw1: 500 cells in 5.0 s, 460 MiB in its second tenth, 780 at most",
    ]


def test_time_between_cells_is_the_harness_s() -> None:
    idle = [replace(cell, began=1000 + number / 50) for number, cell in enumerate(cells("gw0", 500, share=0.0))]
    found = figures(idle)
    assert found is not None
    assert found.share() == pytest.approx(0.5, abs=0.01)


def test_carried_and_crashed_cells_are_not_part_of_the_figures() -> None:
    dead = [replace(cell, memory=0) for cell in cells("gw0", 300)[::7]]
    assert figures([replace(cell, carried="earlier") for cell in cells("gw0", 300)]) is None
    found = figures([*cells("gw0", 300), *dead])
    assert found is not None
    assert found.memory["gw0"] == (500, 500)
    few = figures(cells("gw0", 20))
    assert few is not None
    assert few.growth() is None
    assert not any(line.startswith("memory") for line in told(few))


def test_a_run_of_version_1_has_no_figures() -> None:
    old = Path(__file__).parents[1] / "harness" / "old_runs" / "v1"
    assert read_figures(old) is None
    app = typer.Typer()
    app.command()(main)
    result = CliRunner().invoke(app, [str(old)])
    assert result.exit_code == 2
    assert "has no cell with a start time" in result.output
