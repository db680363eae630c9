"""Exporters and runtimes beside each other: which of them get a cell right that others do not, or silently wrong."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.record import Kind, Record, Stage, Status
from onnx_parity.reports.arrangement import Declaration

_COMPARED = frozenset({Stage.COMPARE, Stage.RERUN_SIZES, Stage.RERUN_VALUES})
#: Statuses of cells that failed, whether or not that was expected.
_FAILED = frozenset({Status.FAILED, Status.KNOWN})


class Ending(StrEnum):
    """How a subject did at one point of the matrix. The order is that of the numbers in the data."""

    RIGHT = "right"
    #: A model was exported and run without an error, and its results are wrong.
    SILENTLY_WRONG = "silently wrong"
    #: An error at any stage, or a crash.
    BROKEN = "broken"
    REFUSED = "refused"
    DID_NOT_RUN = "did not run"


_Subject = tuple[str, str]


class Subjects:
    """Collects what each exporter and runtime did, declaration by declaration, over the points that several reached."""

    def __init__(self) -> None:
        self._subjects: dict[_Subject, None] = {}
        self._rows: list[tuple[tuple[Kind, str, str], int, dict[_Subject, Counter[str]]]] = []

    def add(self, declaration: Declaration, records: Sequence[Record]) -> None:
        first = records[0].exporter, records[0].ran_on
        if all((record.exporter, record.ran_on) == first for record in records):
            self._subjects[first] = None
            return
        points: defaultdict[tuple[object, ...], dict[_Subject, Ending]] = defaultdict(dict)
        for record in records:
            point = record.case, record.dtype, record.opset, record.device, record.capture, record.shapes
            subject = record.exporter, record.ran_on
            self._subjects[subject] = None
            points[point][subject] = _ending(record)
        shared = [at for at in points.values() if len(at) > 1]
        counts: defaultdict[_Subject, Counter[str]] = defaultdict(Counter)
        for at in shared:
            right = [subject for subject, ending in at.items() if ending is Ending.RIGHT]
            for subject, ending in at.items():
                counts[subject][ending] += 1
            if len(right) == 1:
                counts[right[0]]["alone"] += 1
        if shared:
            key = declaration.kind, markup_text(declaration.family), markup_text(declaration.name)
            self._rows.append((key, len(shared), dict(counts)))

    @property
    def several(self) -> bool:
        return bool(self._rows)

    def data(self) -> dict[str, Any]:
        subjects = sorted(self._subjects, key=lambda each: (each[0] != "parity", each))
        return {
            "subjects": [[markup_text(part) for part in subject] for subject in subjects],
            "endings": list(Ending),
            "rows": [
                {
                    "of": key,
                    "points": points,
                    #: For each subject, the points of each ending, and those at which it alone is right.
                    "counts": [_numbers(counts.get(subject, Counter())) for subject in subjects],
                }
                for key, points, counts in self._rows
            ],
        }


def _numbers(counts: Counter[str]) -> list[int]:
    return [*(counts[each] for each in Ending), counts["alone"]]


def _ending(record: Record) -> Ending:
    if record.status in (Status.PASSED, Status.UNEXPECTED_PASS):
        return Ending.RIGHT
    if record.status is Status.ABSENT:
        return Ending.DID_NOT_RUN
    if record.status is Status.UNSUPPORTED:
        return Ending.REFUSED
    is_silent = record.status in _FAILED and record.stage in _COMPARED
    return Ending.SILENTLY_WRONG if is_silent else Ending.BROKEN
