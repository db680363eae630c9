"""A case as data: its cells column by column, with everything that repeats written once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.record import Metrics, OnnxUse, Record
from onnx_parity.reports.arrangement import Case, variant
from onnx_parity.reports.coverage import where
from onnx_parity.reports.groups import safe_link
from onnx_parity.reports.outcomes import STATE_NUMBERS
from onnx_parity.reports.wording import message_excerpt

#: A case keeps at most this many whole messages. `parity query --json` prints the others.
MOST_MESSAGES = 40

_T = TypeVar("_T", bound=Hashable)


class Distinct(Generic[_T]):
    """Numbers the distinct values that it is asked for, in the order of their first appearance."""

    def __init__(self) -> None:
        self.numbers: dict[_T, int] = {}

    def number(self, value: _T) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def values(self) -> list[_T]:
        return list(self.numbers)


class CaseData(msgspec.Struct, frozen=True):
    """A case and its cells. Each of the lists `variant` to `message` has one entry per cell."""

    case: str
    #: The values on every axis but the opset, as `arrangement.variant` orders them.
    variants: list[tuple[str, ...]]
    #: Ids and node ids, whether `-opset{}-` in them stands for the opset, and the options that run them again.
    ids: list[tuple[str, str, bool, str]]
    wheres: list[str]
    #: Reason, link, and the error of an expected failure.
    reasons: list[tuple[str, str, str]]
    metrics: list[Metrics | None]
    emissions: list[tuple[tuple[OnnxUse, ...], int]]
    aten: list[tuple[str, ...]]
    messages: list[str]
    bundles: list[str]
    variant: list[int]
    opset: list[int]
    status: list[int]
    id: list[int]
    where: list[int]
    reason: list[int]
    metric: list[int]
    emission: list[int]
    message: list[int]
    bundle: list[int]
    #: Stage to the microseconds of every cell, with two digits.
    microseconds: dict[str, list[int]]
    #: How many messages were left out.
    more_messages: int


def case_data(case: Case) -> CaseData:
    records = case.records
    variants, ids = Distinct[tuple[str, ...]](), Distinct[tuple[str, str, bool, str]]()
    wheres, reasons, messages = Distinct[str](), Distinct[tuple[str, str, str]](), Distinct[str]()
    metrics, bundles = Distinct[Metrics | None](), Distinct[str]()
    emissions, aten = Distinct[tuple[tuple[OnnxUse, ...], int]](), Distinct[tuple[str, ...]]()
    rows: list[tuple[int, ...]] = []
    left_out = 0
    for record in records:
        text = record.message
        if text and text not in messages.numbers and len(messages.numbers) >= MOST_MESSAGES:
            left_out += 1
            text = ""
        if record.aten:
            aten.number(record.aten)
        rows.append(
            (
                variants.number(variant(record)),
                record.opset,
                STATE_NUMBERS[record.status],
                ids.number(_id_without_opset(record)),
                wheres.number(where(record)),
                reasons.number((record.reason, record.link, record.error)),
                metrics.number(record.metrics),
                emissions.number((record.onnx, record.nodes)),
                messages.number(text),
                bundles.number(record.bundle),
            )
        )
    columns: Any = [list(column) for column in zip(*rows, strict=True)]
    return CaseData(
        case.label,
        variants.values(),
        [(markup_text(cell), node, whole, options) for cell, node, whole, options in ids.values()],
        wheres.values(),
        [(markup_text(reason), safe_link(link), markup_text(error)) for reason, link, error in reasons.values()],
        metrics.values(),
        emissions.values(),
        aten.values(),
        [message_excerpt(message) for message in messages.values()],
        bundles.values(),
        *(*columns, _microseconds(records), left_out),
    )


def _id_without_opset(record: Record) -> tuple[str, str, bool, str]:
    """Cells of a case differ in little but their opset, which is left out of their ids where they name it."""
    opset = f"-opset{record.opset}-"
    cell, options = record.cell, " ".join(record.options)
    if "{" in record.nodeid or cell.count(opset) != 1 or not record.nodeid.endswith(cell):
        return cell, record.nodeid, False, options
    template = cell.replace(opset, "-opset{}-")
    return template, record.nodeid.removesuffix(cell) + template, True, options


def _microseconds(records: Sequence[Record]) -> dict[str, list[int]]:
    columns: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(records))
    for place, record in enumerate(records):
        for stage, seconds in record.seconds.items():
            columns[stage][place] = _two_digits(seconds * 1e6)
    return columns


def _two_digits(number: float) -> int:
    scale: int = 1
    while number >= 100:
        number /= 10
        scale *= 10
    return int(number + 0.5) * scale
