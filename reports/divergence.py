"""The page of divergence: how close the error of each compared cell is to its tolerance, the closest first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from onnx_parity.harness.record import EXACT_HEADROOM, Metrics
from onnx_parity.reports.arrangement import Declaration, variant
from onnx_parity.reports.outcomes import State, state_of

#: The page lists at most this many rows; the errors of the others are far below their tolerances.
MOST_ROWS = 500


@dataclass(frozen=True, slots=True)
class DivergenceRow:
    """A cell's distance from the reference, and the opsets at which it is identical."""

    case: str
    family: str
    page: str
    state: State
    variant: tuple[str, ...]
    opsets: tuple[int, ...]
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class HeadroomBand:
    """The number of compared cells whose headroom is between two powers of ten."""

    label: str
    cells: int
    #: Whether the headroom is below 1, so that these cells fail.
    fails: bool
    #: Its number of cells divided by that of the largest band.
    share: float


@dataclass(frozen=True, slots=True)
class Divergence:
    rows: tuple[DivergenceRow, ...]
    #: The number of rows, including those that are not listed.
    total_rows: int
    compared: int
    exact: int
    bands: tuple[HeadroomBand, ...]
    opsets: tuple[int, ...]


def measure_divergence(declarations: Iterable[Declaration]) -> Divergence:
    alike: defaultdict[tuple[str, str, State, tuple[str, ...], Metrics], list[int]] = defaultdict(list)
    families: dict[str, str] = {}
    headrooms: list[float] = []
    for declaration in declarations:
        for case in declaration.cases:
            families[case.page] = declaration.family
            for record in case.records:
                if record.metrics is not None:
                    headrooms.append(record.metrics.headroom)
                    key = (case.label, case.page, state_of(record.status), variant(record), record.metrics)
                    alike[key].append(record.opset)
    rows = [
        DivergenceRow(case, families[page], page, state, axes, tuple(sorted(set(opsets))), metrics)
        for (case, page, state, axes, metrics), opsets in alike.items()
    ]
    rows.sort(key=lambda row: row.metrics.headroom)
    inexact = [row for row in rows if row.metrics.headroom < EXACT_HEADROOM]
    return Divergence(
        rows=tuple(inexact[:MOST_ROWS]),
        total_rows=len(inexact),
        compared=len(headrooms),
        exact=sum(headroom >= EXACT_HEADROOM for headroom in headrooms),
        bands=headroom_bands(headrooms),
        opsets=tuple(sorted({opset for row in inexact[:MOST_ROWS] for opset in row.opsets})),
    )


def headroom_bands(headrooms: Iterable[float]) -> tuple[HeadroomBand, ...]:
    edges = (1.0, 10.0, 100.0, 1e3, 1e4, EXACT_HEADROOM)
    labels = ("below 1", "1 to 10", "10 to 100", "100 to 1,000", "1,000 to 10,000", "above 10,000", "exact")
    counts = [0] * len(labels)
    for headroom in headrooms:
        counts[sum(headroom >= edge for edge in edges)] += 1
    largest = max(counts) or 1
    return tuple(
        HeadroomBand(label, count, fails=place == 0, share=count / largest)
        for place, (label, count) in enumerate(zip(labels, counts, strict=True))
    )
