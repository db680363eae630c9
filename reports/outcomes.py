"""The presentation of outcomes in the pages: their order, words and glyphs, and their counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from onnx_parity.harness.record import Record, Status
from onnx_parity.reports.wording import thousands

Tally: TypeAlias = Counter[Status]


class State(StrEnum):
    """The state of a square of a grid: the common status of its cells, or a summary of several statuses.

    The order is that of every legend: the gravest first, and cells that did not run at the end.
    """

    CRASHED = "crashed"
    FAILED = "failed"
    UNEXPECTED_PASS = "unexpected_pass"
    KNOWN = "known"
    PASSED = "passed"
    #: Some of its cells passed, the others are unsupported.
    PARTLY = "partly"
    UNSUPPORTED = "unsupported"
    ABSENT = "absent"
    NOT_COVERED = "not_covered"


@dataclass(frozen=True, slots=True)
class Face:
    """The glyph and the words for a state. The glyphs differ in shape, so that no information is in colour alone."""

    glyph: str
    one: str
    many: str
    meaning: str


FACES: dict[State, Face] = {
    State.CRASHED: Face("!", "crashed", "crashed", "the process that ran it ended"),
    State.FAILED: Face("×", "failed", "failed", "a stage failed"),
    State.UNEXPECTED_PASS: Face(
        "?", "unexpected pass", "unexpected passes", "it passed, although an expectation predicts a failure"
    ),
    State.KNOWN: Face("~", "known failure", "known failures", "it failed, as an expectation predicts"),
    State.PASSED: Face("✓", "passed", "passed", "every cell that ran here passed"),
    State.PARTLY: Face(
        "◐", "passed in part", "passed in part", "some cells passed, the exporter does not support the others"
    ),
    State.UNSUPPORTED: Face("–", "unsupported", "unsupported", "the exporter does not support it, and gives a reason"),
    State.ABSENT: Face("○", "absent", "absent", "it could not run here"),
    State.NOT_COVERED: Face("·", "not covered", "not covered", "this run has no such cell"),
}

#: The order in which pages list statuses: as in `State`, with cells that did not run at the end.
LISTED: tuple[Status, ...] = tuple(Status(state.value) for state in State if state.value in set(Status))
RANKS: dict[Status, int] = {status: rank for rank, status in enumerate(LISTED)}

#: The number of each state, and of the status of the same name, in the data of a report.
STATE_NUMBERS: dict[str, int] = {state.value: number for number, state in enumerate(State)}


def tally(records: Iterable[Record]) -> Tally:
    return Counter(record.status for record in records)


def state_of(status: Status) -> State:
    return State(status.value)


def in_words(counts: Tally) -> str:
    """`2 failed, 10 passed`, the gravest first."""
    return ", ".join(count_in_words(status, counts[status]) for status in LISTED if counts[status])


def count_in_words(status: Status, count: int) -> str:
    face = FACES[state_of(status)]
    return f"{thousands(count)} {face.one if count == 1 else face.many}"
