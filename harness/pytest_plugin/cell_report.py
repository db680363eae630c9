"""What pytest is told of a cell: one report, how it is counted and printed, and its form between processes."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from onnx_parity.harness.record import Record, Status

_Outcome = Literal["passed", "failed", "skipped"]
_Words = str | tuple[str, int, str] | None

#: How pytest counts, marks and names what it would call skipped.
_SKIPPED_AS = {
    Status.UNSUPPORTED: ("unsupported", "n", "UNSUPPORTED"),
    Status.KNOWN: ("known", "k", "KNOWN"),
    Status.ABSENT: ("skipped", "s", "ABSENT"),
}
_REPORTED_AS = {
    "passed": ("passed", ".", "PASSED"),
    "failed": ("failed", "F", "FAILED"),
    "skipped": ("skipped", "s", "SKIPPED"),
}
#: Under which key a report travels.
_KEY = "parity_cell"


class CellReport(pytest.TestReport):
    """The only report of a cell, which has neither setup nor teardown."""

    def __init__(
        self,
        nodeid: str,
        location: tuple[str, int | None, str],
        status: Status,
        outcome: _Outcome,
        longrepr: _Words,
        start: float,
        stop: float,
    ) -> None:
        super().__init__(nodeid, location, {}, outcome, longrepr, "call", duration=stop - start, start=start, stop=stop)
        self.status = status

    def category(self) -> tuple[str, str, str]:
        """How pytest counts it, the letter that it prints, and the word."""
        shown = _SKIPPED_AS.get(self.status) if self.skipped else None
        return shown or _REPORTED_AS[self.outcome]

    def print_id_as_it_is(self) -> None:
        """pytest reads all that follows a `[` as parameters, and prints a `]` after an id that has more behind it."""
        parsed = getattr(self, "id", None)
        if parsed is not None and parsed.params is not None:
            path, *names = self.nodeid.split("::")
            object.__setattr__(self, "_id", type(parsed)(path=path, names=tuple(names)))


def report_of(item: pytest.Item, record: Record, start: float, stop: float, *, strict_unsupported: bool) -> CellReport:
    """The report of a cell that ran."""
    outcome, longrepr = told(record, strict_unsupported=strict_unsupported)
    return CellReport(item.nodeid, item.location, record.status, outcome, longrepr, start, stop)


def told(record: Record, *, strict_unsupported: bool) -> tuple[_Outcome, _Words]:
    """What became of a cell, as pytest knows outcomes, and in which words."""
    if record.status is Status.PASSED:
        return "passed", None
    if record.status in _SKIPPED_AS and not (record.status is Status.UNSUPPORTED and strict_unsupported):
        return "skipped", (record.file, record.line, record.reason)
    return "failed", record.message


class _Sent(msgspec.Struct, frozen=True, array_like=True):
    """What a worker sends of a report: a tenth of pytest's own form of it, in bytes and in both processes' time."""

    nodeid: str
    location: tuple[str, int | None, str]
    status: Status
    outcome: _Outcome
    longrepr: _Words
    start: float
    stop: float


_decoder = msgspec.json.Decoder(_Sent)


def packed(report: CellReport) -> dict[str, Any]:
    """The report as a worker sends it."""
    sent = {name: getattr(report, name) for name in _Sent.__struct_fields__}
    return {_KEY: msgspec.json.encode(_Sent(**sent))}


def unpacked(data: dict[str, Any]) -> CellReport | None:
    """The report that a worker sent; None where it is not that of a cell."""
    if _KEY not in data:
        return None
    sent = _decoder.decode(data[_KEY])
    return CellReport(*(getattr(sent, name) for name in _Sent.__struct_fields__))
