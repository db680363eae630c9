"""Cells that did not pass, in groups, so that a fault is listed once and not for every opset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.record import Record, Status
from onnx_parity.reports.arrangement import Case, variant
from onnx_parity.reports.coverage import where
from onnx_parity.reports.outcomes import RANKS, State, state_of
from onnx_parity.reports.wording import message_excerpt, opsets_named

#: At most this many values of an axis are listed.
MOST_VALUES = 3


@dataclass(frozen=True, slots=True)
class Group:
    """Cells of one case with the same status, stage and blame. Reason, message and command are those of the first."""

    case: str
    page: str
    state: State
    #: `compare · exporter`.
    where: str
    reason: str
    #: The number of further reasons among its cells.
    other_reasons: int
    cells: int
    #: `opsets 7–9`.
    opsets: str
    #: `float32 · cpu · static · trace · onnxruntime`.
    axes: str
    message: str
    command: str
    link: str


def group_outcomes(cases: Iterable[Case], statuses: Collection[Status]) -> list[Group]:
    """One group for each case, status, stage and blame, the gravest first, otherwise in the order of the cases."""
    groups: list[tuple[int, Group]] = []
    for case in cases:
        alike: defaultdict[tuple[Status, str], list[Record]] = defaultdict(list)
        for record in case.records:
            if record.status in statuses:
                alike[record.status, where(record)].append(record)
        groups.extend(
            (RANKS[status], _group(case, status, place, records)) for (status, place), records in alike.items()
        )
    return [group for _, group in sorted(groups, key=lambda ranked: ranked[0])]


def _group(case: Case, status: Status, place: str, records: Sequence[Record]) -> Group:
    first = records[0]
    return Group(
        case=case.label,
        page=case.page,
        state=state_of(status),
        where=place,
        reason=markup_text(first.reason),
        other_reasons=len({record.reason for record in records}) - 1,
        cells=len(records),
        opsets=opsets_named(record.opset for record in records),
        axes=axes_of(records),
        message=message_excerpt(first.message),
        command=first.again,
        link=safe_link(first.link),
    )


def axes_of(records: Sequence[Record]) -> str:
    """The values of the records on each axis except the opset: `float16, float32 · cpu · static · …`."""
    columns = zip(*(variant(record) for record in records), strict=True)
    return " · ".join(_values(list(dict.fromkeys(column))) for column in columns)


def _values(values: list[str]) -> str:
    if len(values) <= MOST_VALUES:
        return ", ".join(values)
    return f"{', '.join(values[: MOST_VALUES - 1])} and {len(values) - MOST_VALUES + 1} more"


def safe_link(link: str) -> str:
    """The link if it is a web address, otherwise nothing, because a `javascript:` link must not run in the page."""
    return link if link.startswith(("https://", "http://")) else ""
