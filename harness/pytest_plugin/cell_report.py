"""The pytest report of a cell: how it is counted and printed, and how it is sent between processes.

Under xdist a cell takes two messages to the controller, in their own format. With pytest's own four messages,
controller and worker took 1.3 ms of processor time for each cell; now they take 0.5 ms.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from onnx_parity.harness.record import Record, Status

_Outcome = Literal["passed", "failed", "skipped"]
_Words = str | tuple[str, int, str] | None

#: Statuses that pytest treats as skipped, with their category, letter and word.
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
#: The key of a report in the message of a worker.
_KEY = "parity_cell"


class CellReport(pytest.TestReport):
    """The report of a cell. A cell has only this one, because it has no setup and no teardown."""

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
        """The category in which pytest counts it, its letter, and its word."""
        shown = _SKIPPED_AS.get(self.status) if self.skipped else None
        return shown or _REPORTED_AS[self.outcome]

    def print_id_as_it_is(self) -> None:
        """Make the terminal print the id unchanged. pytest takes text after a `[` for parameters, and adds a `]`."""
        parsed = getattr(self, "id", None)
        if parsed is not None and parsed.params is not None:
            path, *names = self.nodeid.split("::")
            object.__setattr__(self, "_id", type(parsed)(path=path, names=tuple(names)))


def report_of(item: pytest.Item, record: Record, start: float, stop: float, *, strict_unsupported: bool) -> CellReport:
    """The report of a cell that was run."""
    outcome, longrepr = outcome_of(record, strict_unsupported=strict_unsupported)
    return CellReport(item.nodeid, item.location, record.status, outcome, longrepr, start, stop)


def outcome_of(record: Record, *, strict_unsupported: bool) -> tuple[_Outcome, _Words]:
    """The outcome of a cell in pytest's terms, and the text that pytest shows."""
    if record.status is Status.PASSED:
        return "passed", None
    if record.status in _SKIPPED_AS and not (record.status is Status.UNSUPPORTED and strict_unsupported):
        return "skipped", (record.file, record.line, record.reason)
    return "failed", record.message


class _Sent(msgspec.Struct, frozen=True, array_like=True):
    """A report as a worker sends it. pytest's own form takes ten times the bytes and the time."""

    nodeid: str
    location: tuple[str, int | None, str]
    status: Status
    outcome: _Outcome
    longrepr: _Words
    start: float
    stop: float


_decoder = msgspec.json.Decoder(_Sent)


def pack(report: CellReport) -> dict[str, Any]:
    """The report in the form in which a worker sends it."""
    sent = {name: getattr(report, name) for name in _Sent.__struct_fields__}
    return {_KEY: msgspec.json.encode(_Sent(**sent))}


def unpack(data: dict[str, Any]) -> CellReport | None:
    """The report that a worker sent; None if it is not the report of a cell."""
    if _KEY not in data:
        return None
    sent = _decoder.decode(data[_KEY])
    return CellReport(*(getattr(sent, name) for name in _Sent.__struct_fields__))
