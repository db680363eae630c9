"""Failures by cause, for the first page and the summary: one row for what many cases, dtypes and opsets share."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.record import WRONG
from onnx_parity.harness.results.causes import Cause, Causes
from onnx_parity.reports.arrangement import Declaration
from onnx_parity.reports.groups import safe_link
from onnx_parity.reports.outcomes import State, state_of
from onnx_parity.reports.wording import message_excerpt, opsets_named

#: A cause names at most this many of its cases, and a report lists at most this many causes.
MOST_CASES, MOST_CAUSES = 8, 200


@dataclass(frozen=True, slots=True)
class CauseRow:
    """A cause with the cells that it has. Reason, message and command are those of its first cell."""

    #: An operator if it is known, a case if there is one, or else declarations.
    subject: str
    state: State
    #: `compare (exporter)`.
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
    #: The node id of its first cell.
    node: str
    link: str


class CauseMeter:
    """Collects the causes, declaration by declaration."""

    def __init__(self) -> None:
        self._causes = Causes()
        #: The address of the page of every case with a cell that is wrong.
        self._pages: dict[str, str] = {}
        self.total = 0

    def add(self, declaration: Declaration) -> None:
        for case in declaration.cases:
            for record in case.records:
                if record.status in WRONG:
                    self._causes.add(record)
                    self._pages[case.label] = case.page

    def rows(self) -> list[CauseRow]:
        """The causes, the gravest first, as many as a report lists. `total` is their number then."""
        causes = self._causes.rows()
        self.total = len(causes)
        return [self._row(cause) for cause in causes[:MOST_CAUSES]]

    def _row(self, cause: Cause) -> CauseRow:
        first = cause.first
        # First the case of the cell that is told, and drawn.
        labels = list(dict.fromkeys((first.case, *cause.cases)))
        return CauseRow(
            subject=markup_text(cause.subject),
            state=state_of(cause.status),
            where=cause.where,
            cells=cause.cells,
            opsets=opsets_named(cause.opsets),
            dtypes=", ".join(cause.dtypes),
            cases=tuple((markup_text(label), self._pages[label]) for label in labels[:MOST_CASES]),
            more_cases=len(labels[MOST_CASES:]),
            reason=markup_text(cause.detail),
            message=message_excerpt(first.message),
            command=cause.again,
            node=first.nodeid,
            link=safe_link(first.link),
        )
