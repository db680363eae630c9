"""The data of a comparison: the samples that are exported, and the outcome of each exporter on each of them.

They are sent as JSON between the command and its workers, and printed by the command with `--json`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from onnx_parity.harness.axes import Dtype
from onnx_parity.harness.record import RunInfo


class Verdict(StrEnum):
    """The outcome of an exporter on a sample at an opset."""

    RIGHT = "right"
    #: The model runs and returns other values than torch: silently wrong.
    WRONG = "wrong"
    #: The exporter refused the sample as unsupported.
    REFUSED = "refused"
    #: The exporter raised something else, or onnxruntime does not load or run its model.
    BROKEN = "broken"
    #: The process died, or did not answer in time.
    CRASHED = "crashed"


class Point(msgspec.Struct, frozen=True, order=True):
    """A sample of an entry: `clamp[3]` in float32."""

    entry: str
    dtype: Dtype
    position: int

    def __str__(self) -> str:
        return f"{self.entry}[{self.position}]"


class Task(msgspec.Struct, frozen=True):
    """A sample to export at several opsets, captured once if the exporter supports that."""

    point: Point
    opsets: tuple[int, ...]


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one exporter on one sample at one opset."""

    point: Point
    exporter: str
    opset: int
    verdict: Verdict
    #: Why it is not right, in one line.
    reason: str = ""
    #: Seconds of the export; None where it did not end.
    seconds: float | None = None


class Comparison(msgspec.Struct, frozen=True):
    """The results of a comparison."""

    run: RunInfo
    #: Whether it used as many samples of every declared entry, or of the database's, as the targets assume.
    whole: bool
    #: Whether these are the entries of torch's operator database.
    database: bool
    exporters: tuple[str, ...]
    points: tuple[Point, ...]
    outcomes: tuple[Outcome, ...]

    def of(self, exporter: str, opset: int) -> dict[Point, Outcome]:
        return {each.point: each for each in self.outcomes if (each.exporter, each.opset) == (exporter, opset)}

    def opsets(self, exporter: str) -> tuple[int, ...]:
        return tuple(sorted({each.opset for each in self.outcomes if each.exporter == exporter}))
