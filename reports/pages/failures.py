"""Failures by cause, for the first page and the summary: one row for what many cases, dtypes and opsets share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.record import WRONG, Record
from onnx_parity.harness.results.causes import Cause, cause_of
from onnx_parity.reports.arrangement import Declaration
from onnx_parity.reports.coverage import where
from onnx_parity.reports.groups import safe_link
from onnx_parity.reports.outcomes import RANKS, State, state_of
from onnx_parity.reports.wording import message_excerpt, opsets_named

#: A cause names at most this many of its cases, and a report lists at most this many causes.
MOST_CASES, MOST_CAUSES = 8, 200


@dataclass(frozen=True, slots=True)
class CauseRow:
    """A cause with the cells that it has. Reason, message and command are those of its first cell."""

    what: str
    state: State
    #: `compare · exporter`.
    where: str
    cells: int
    opsets: str
    dtypes: str
    #: The labels of its cases, and the addresses of their pages.
    cases: tuple[tuple[str, str], ...]
    more_cases: int
    reason: str
    message: str
    command: str
    link: str


@dataclass(slots=True)
class _Found:
    first: Record
    cells: int = 0
    opsets: set[int] = field(default_factory=set)
    dtypes: dict[str, None] = field(default_factory=dict)
    #: Label to address.
    cases: dict[str, str] = field(default_factory=dict)
    more_cases: int = 0


class CauseMeter:
    """Collects the causes, declaration by declaration."""

    def __init__(self) -> None:
        self._found: dict[Cause, _Found] = {}

    def add(self, declaration: Declaration) -> None:
        for case in declaration.cases:
            self._add_case(case.label, case.page, [record for record in case.records if record.status in WRONG])

    def _add_case(self, label: str, page: str, wrong: Sequence[Record]) -> None:
        here = set()
        for record in wrong:
            cause = cause_of(record)
            found = self._found.setdefault(cause, _Found(record))
            found.cells += 1
            found.opsets.add(record.opset)
            found.dtypes[record.dtype] = None
            here.add(cause)
        for cause in here:
            found = self._found[cause]
            if len(found.cases) < MOST_CASES:
                found.cases[label] = page
            else:
                found.more_cases += 1

    def __len__(self) -> int:
        return len(self._found)

    def rows(self) -> list[CauseRow]:
        """The causes, the gravest first, and of these the ones with most cells."""
        ranked = sorted(self._found.items(), key=lambda each: (RANKS[each[1].first.status], -each[1].cells))
        return [_row(cause, found) for cause, found in ranked[:MOST_CAUSES]]


def _row(cause: Cause, found: _Found) -> CauseRow:
    first = found.first
    return CauseRow(
        what=markup_text(cause.what),
        state=state_of(first.status),
        where=where(first),
        cells=found.cells,
        opsets=opsets_named(found.opsets),
        dtypes=", ".join(found.dtypes),
        cases=tuple((markup_text(label), page) for label, page in found.cases.items()),
        more_cases=found.more_cases,
        reason=markup_text(first.error or first.reason),
        message=message_excerpt(first.message),
        command=first.again,
        link=safe_link(first.link),
    )
