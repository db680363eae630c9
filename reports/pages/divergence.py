"""The page of divergence: how close the error of each compared cell is to its tolerance, the closest first."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.record import EXACT_HEADROOM, Kind, Metrics
from onnx_parity.reports.arrangement import Declaration, variant
from onnx_parity.reports.outcomes import STATE_NUMBERS, State, state_of

#: The page lists at most this many rows; the errors of the others are far below their tolerances.
MOST_ROWS = 500

_EDGES = (1.0, 10.0, 100.0, 1e3, 1e4, EXACT_HEADROOM)
_LABELS = ("below 1", "1 to 10", "10 to 100", "100 to 1,000", "1,000 to 10,000", "above 10,000", "exact")


@dataclass(frozen=True, slots=True)
class DivergenceRow:
    """A cell's distance from the reference, and the opsets at which it is identical."""

    case: str
    kind: Kind
    family: str
    name: str
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


class DivergenceMeter:
    """Measures declaration by declaration, and keeps the rows that are closest to failing."""

    def __init__(self) -> None:
        self._rows: list[DivergenceRow] = []
        self._total = 0
        self._bands = [0] * len(_LABELS)

    def add(self, declaration: Declaration) -> None:
        alike: defaultdict[tuple[str, State, tuple[str, ...], Metrics], list[int]] = defaultdict(list)
        for case in declaration.cases:
            for record in case.records:
                if record.metrics is not None:
                    self._bands[_band(record.metrics.headroom)] += 1
                    if record.metrics.headroom < EXACT_HEADROOM:
                        alike[case.label, state_of(record.status), variant(record), record.metrics].append(record.opset)
        self._total += len(alike)
        self._rows += [
            DivergenceRow(
                case,
                declaration.kind,
                declaration.family,
                declaration.name,
                state,
                axes,
                tuple(sorted(set(opsets))),
                metrics,
            )
            for (case, state, axes, metrics), opsets in alike.items()
        ]
        if len(self._rows) > 10 * MOST_ROWS:
            self._keep_closest()

    def _keep_closest(self) -> None:
        self._rows = heapq.nsmallest(MOST_ROWS, self._rows, key=lambda row: row.metrics.headroom)

    @property
    def close(self) -> int:
        """The number of cells whose error is more than a tenth of their tolerance."""
        return sum(self._bands[:2])

    def result(self) -> Divergence:
        self._keep_closest()
        return Divergence(
            tuple(self._rows), self._total, sum(self._bands), self._bands[-1], headroom_bands(self._bands)
        )

    def data(self) -> list[dict[str, Any]]:
        """The rows for the page's script."""
        return [
            {
                "case": markup_text(row.case),
                "of": [row.kind, markup_text(row.family), markup_text(row.name)],
                "state": STATE_NUMBERS[row.state],
                "variant": row.variant,
                "opsets": row.opsets,
                "metrics": row.metrics,
            }
            for row in self.result().rows
        ]


def headroom_bands(counts: Sequence[int]) -> tuple[HeadroomBand, ...]:
    largest = max(counts) or 1
    return tuple(
        HeadroomBand(label, count, fails=place == 0, share=count / largest)
        for place, (label, count) in enumerate(zip(_LABELS, counts, strict=True))
    )


def _band(headroom: float) -> int:
    return bisect_right(_EDGES, headroom)
