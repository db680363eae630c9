"""Divergence: rows that are closest to failing come first, equal rows are merged, and left out rows are counted."""

from __future__ import annotations

from msgspec.structs import replace

from onnx_parity.harness.record import Metrics, Record
from onnx_parity.reports.arrangement import arrange
from onnx_parity.reports.pages.divergence import MOST_ROWS, Divergence, DivergenceMeter
from tests.reports.synthetic_run import PASSING

METRICS = Metrics(1e-7, 1e-7, 0.5, 1.0, 2.0, 12.0, 1.2e-6, 0, (0, 1), 1.0000001, 1.0)


def measure_divergence(*records: Record) -> Divergence:
    meter = DivergenceMeter()
    for declaration in arrange(records):
        meter.add(declaration)
    return meter.result()


def compared(opset: int, headroom: float) -> Record:
    return replace(PASSING, cell=f"{opset}-{headroom}", opset=opset, metrics=replace(METRICS, headroom=headroom))


def test_the_smallest_headroom_comes_first() -> None:
    divergence = measure_divergence(compared(9, 30.0), compared(10, 0.5), compared(11, 2.0))
    assert [row.metrics.headroom for row in divergence.rows] == [0.5, 2.0, 30.0]


def test_opsets_at_which_a_cell_is_the_very_same_share_a_row() -> None:
    divergence = measure_divergence(compared(9, 2.0), compared(8, 2.0), compared(10, 3.0))
    assert [row.opsets for row in divergence.rows] == [(8, 9), (10,)]
    assert divergence.compared == 3


def test_exact_cells_are_counted_and_not_listed() -> None:
    divergence = measure_divergence(compared(9, 1e9), compared(10, 2.0))
    assert (divergence.compared, divergence.exact, len(divergence.rows)) == (2, 1, 1)


def test_cells_that_were_not_compared_are_not_in_it() -> None:
    assert measure_divergence(PASSING).compared == 0


def test_rows_beyond_the_limit_are_counted() -> None:
    divergence = measure_divergence(*[compared(9, 2.0 + n) for n in range(MOST_ROWS + 7)])
    assert (len(divergence.rows), divergence.total_rows) == (MOST_ROWS, MOST_ROWS + 7)
    assert divergence.rows[-1].metrics.headroom == 1.0 + MOST_ROWS


def test_a_cell_that_passes_by_nothing_is_not_in_the_band_of_those_that_fail() -> None:
    headrooms = [0.0, 0.999, 1.0, 10.0, 1e8, 1e9]
    bands = measure_divergence(*[compared(7 + n, headroom) for n, headroom in enumerate(headrooms)]).bands
    assert {band.label: band.cells for band in bands if band.cells} == {
        "below 1": 2, "1 to 10": 1, "10 to 100": 1, "above 10,000": 1, "exact": 1,
    }  # fmt: skip
    assert [band.fails for band in bands] == [True] + [False] * 6
