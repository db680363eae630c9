"""The rows of the first page's grids as data: a declaration each, its squares, and since which opset it is right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.record import Kind, Record, Status
from onnx_parity.reports.arrangement import Declaration
from onnx_parity.reports.coverage import Reason, Row, RowHead, Since, aggregate, build_row, is_before_dtype, right_since
from onnx_parity.reports.outcomes import STATE_NUMBERS, Tally
from onnx_parity.reports.pages.case_data import Distinct


class SinceData(msgspec.Struct, frozen=True):
    """The opset from which on the dtype with the most cells is right, and the dtypes and exporters with another opset.

    A dtype is compared over the opsets at which it ran. What did not run is never counted as failed.
    """

    dtype: str
    whole: int | None
    partly: int | None
    ran: bool
    others: list[tuple[str, str]]


class CoverageRow(msgspec.Struct, frozen=True):
    """A declaration. Each of the lists `opsets` to `more` has one entry per square."""

    kind: Kind
    family: str
    name: str
    cases: int
    cells: int
    headroom: float | None
    since: SinceData
    search: str
    piece: int
    opsets: list[int]
    states: list[int]
    some: list[int]
    summary: list[int]
    reasons: list[list[int]]
    more: list[int]


class CoverageTable:
    """Collects the rows, with the reasons and summaries of all squares written once."""

    def __init__(self) -> None:
        self.rows: list[CoverageRow] = []
        self._reasons: dict[Reason, int] = {}
        self._summaries = Distinct[str]()

    def add(self, declaration: Declaration, records: Sequence[Record], piece: int) -> None:
        opsets = sorted({record.opset for record in records})
        head = RowHead(declaration.name, declaration.family, "", "", records)
        row = build_row(head, opsets, self._reasons)
        self.rows.append(
            CoverageRow(
                declaration.kind,
                markup_text(declaration.family),
                markup_text(declaration.name),
                len(declaration.cases),
                len(records),
                row.headroom,
                since_by_dtype(records),
                _searched(declaration, records),
                piece,
                opsets,
                *self._squares(row),
            )
        )

    def _squares(self, row: Row) -> tuple[list[int], list[int], list[int], list[list[int]], list[int]]:
        squares = row.squares
        return (
            [STATE_NUMBERS[square.state] for square in squares],
            [int(square.some_absent) for square in squares],
            [self._summaries.number(square.summary) for square in squares],
            [list(square.reasons) for square in squares],
            [square.more_reasons for square in squares],
        )

    def data(self) -> dict[str, Any]:
        return {
            "opsets": sorted({opset for row in self.rows for opset in row.opsets}),
            "rows": self.rows,
            "reasons": [
                [STATE_NUMBERS[each.state], each.where, markup_text(each.who), each.text] for each in self._reasons
            ],
            "summaries": self._summaries.values(),
        }


def since_by_dtype(records: Sequence[Record]) -> SinceData:
    """Of this project's exporter, or else of that with the most cells; and of others in which they differ from it."""
    by_exporter: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_exporter[record.exporter].append(record)
    own = min(by_exporter, key=lambda exporter: (exporter != "parity", -len(by_exporter[exporter])))
    told = _of_an_exporter(by_exporter[own])
    words = {exporter: _in_words_of(_of_an_exporter(found)) for exporter, found in sorted(by_exporter.items())}
    others = [each for each in words.items() if each[1] != words[own]]
    return msgspec.structs.replace(told, others=told.others + others)


def _of_an_exporter(records: Sequence[Record]) -> SinceData:
    by_dtype: defaultdict[str, defaultdict[int, list[Status]]] = defaultdict(lambda: defaultdict(list))
    for record in [each for each in records if not is_before_dtype(each)] or records:
        by_dtype[record.dtype][record.opset].append(record.status)
    since = {dtype: _since(statuses) for dtype, statuses in by_dtype.items()}
    principal = max(by_dtype, key=lambda dtype: sum(map(len, by_dtype[dtype].values())))
    usual = since[principal]
    first = {dtype: _first_run(statuses) for dtype, statuses in by_dtype.items()}
    others = [
        (dtype, _in_words(since[dtype], first[dtype] is not None))
        for dtype in sorted(by_dtype)
        # A dtype that is right from the first opset at which it ran on differs only in where it ran.
        if since[dtype] != usual and not (first[dtype] is not None and since[dtype].whole == first[dtype])
    ]
    return SinceData(principal, usual.whole, usual.partly, first[principal] is not None, others)


def _since(statuses: defaultdict[int, list[Status]]) -> Since:
    return right_since({opset: aggregate(Tally(found)) for opset, found in statuses.items()})


def _first_run(statuses: defaultdict[int, list[Status]]) -> int | None:
    return min((opset for opset, found in statuses.items() if set(found) != {Status.ABSENT}), default=None)


def _in_words_of(data: SinceData) -> str:
    return _in_words(Since(data.whole, data.partly), data.ran)


def _in_words(since: Since, ran: bool) -> str:
    if not ran:
        return "did not run"
    if since.whole is not None:
        return str(since.whole)
    return "none" if since.partly is None else f"in part {since.partly}"


def _searched(declaration: Declaration, records: Sequence[Record]) -> str:
    """Further text that the filter searches: PyTorch's names, and of an operator, what was traced."""
    names = dict.fromkeys(name for record in records for name in record.calls)
    if declaration.kind is Kind.OPERATOR:
        names |= dict.fromkeys(name for record in records for name in record.aten)
    return markup_text(" ".join(names))
