"""Coverage grids: a row for each subject, a square for each opset, and the opset from which on a row is right."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx_parity.harness.record import Record, Status
from onnx_parity.reports.outcomes import RANKS, State, Tally, in_words, state_of, tally
from onnx_parity.reports.wording import shortened

#: The opsets at which ONNX got its younger dtypes. What a dtype cannot do before is no gap of the exporter.
DTYPES_SINCE = {"bfloat16": 13, "float8_e4m3fn": 19, "float8_e5m2": 19}
#: A square lists at most this many reasons, and the number of further ones.
MOST_REASONS = 5


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for which some cells of a square did not pass."""

    state: State
    #: `compare · exporter`.
    where: str
    #: The case, or the number of cases, if the row has several.
    who: str
    text: str


@dataclass(frozen=True, slots=True)
class Square:
    opset: int
    state: State
    summary: str
    #: Whether some of its cells ran, and others could not because a device or runtime is missing.
    some_absent: bool
    #: Positions in `Grid.reasons`.
    reasons: tuple[int, ...]
    more_reasons: int


@dataclass(frozen=True, slots=True)
class Since:
    """The opset from which on everything that ran passed, and from which on everything that is supported passed."""

    whole: int | None
    partly: int | None


@dataclass(frozen=True, slots=True)
class RowHead:
    """The subject of a row and its links: `page` for the row, `anchor` followed by the opset for a square."""

    label: str
    group: str
    page: str
    anchor: str
    records: Sequence[Record]
    #: Further text that the filter of the page searches.
    search: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    head: RowHead
    squares: tuple[Square, ...]
    since: Since
    tally: Tally
    #: The smallest headroom of its cells; None if no cell was compared.
    headroom: float | None

    @property
    def states(self) -> frozenset[State]:
        return frozenset(square.state for square in self.squares)


@dataclass(frozen=True, slots=True)
class Grid:
    opsets: tuple[int, ...]
    rows: tuple[Row, ...]
    #: The distinct reasons of all squares.
    reasons: tuple[Reason, ...]

    @property
    def squares_by_state(self) -> list[tuple[State, int]]:
        counts = Counter(square.state for row in self.rows for square in row.squares)
        return [(state, counts[state]) for state in State if counts[state]]

    @property
    def has_some_absent(self) -> bool:
        return any(square.some_absent for row in self.rows for square in row.squares)


def aggregate(counts: Tally) -> State:
    """The state of a square from the statuses of its cells: the gravest one. Absent cells do not count as passed.

    A known failure is graver than a pass, so that a square with one does not look right.
    """
    for status in (Status.CRASHED, Status.FAILED, Status.UNEXPECTED_PASS, Status.KNOWN):
        if counts[status]:
            return state_of(status)
    if counts[Status.PASSED]:
        return State.PARTLY if counts[Status.UNSUPPORTED] else State.PASSED
    if counts[Status.UNSUPPORTED]:
        return State.UNSUPPORTED
    return State.ABSENT if counts[Status.ABSENT] else State.NOT_COVERED


def is_before_dtype(record: Record) -> bool:
    """Whether a cell is unsupported because ONNX does not have its dtype at its opset."""
    return record.status is Status.UNSUPPORTED and record.opset < DTYPES_SINCE.get(record.dtype, 0)


def right_since(states: Mapping[int, State]) -> Since:
    """The lowest opset down to which, from the highest one, every state is right.

    Opsets at which nothing ran are skipped.
    """
    whole: int | None = None
    partly: int | None = None
    still_whole = True
    for opset in sorted(states, reverse=True):
        state = states[opset]
        if state in (State.ABSENT, State.NOT_COVERED):
            continue
        if state not in (State.PASSED, State.PARTLY):
            break
        still_whole = still_whole and state is State.PASSED
        whole = opset if still_whole else whole
        partly = opset
    return Since(whole, partly)


def build_grid(heads: Sequence[RowHead], opsets: Sequence[int]) -> Grid:
    reasons: dict[Reason, int] = {}
    rows = tuple(build_row(head, opsets, reasons) for head in heads)
    return Grid(tuple(opsets), rows, tuple(reasons))


def least_headroom(records: Sequence[Record]) -> float | None:
    return min((record.metrics.headroom for record in records if record.metrics is not None), default=None)


def build_row(head: RowHead, opsets: Sequence[int], reasons: dict[Reason, int]) -> Row:
    by_opset: defaultdict[int, list[Record]] = defaultdict(list)
    for record in head.records:
        by_opset[record.opset].append(record)
    several_cases = len({record.case for record in head.records}) > 1
    squares = tuple(_square(opset, by_opset.get(opset, ()), several_cases, reasons) for opset in opsets)
    return Row(
        head,
        squares,
        right_since({square.opset: square.state for square in squares}),
        tally(head.records),
        least_headroom(head.records),
    )


def _square(opset: int, records: Sequence[Record], several_cases: bool, reasons: dict[Reason, int]) -> Square:
    counts = tally(records)
    state = aggregate(tally(each for each in records if not is_before_dtype(each)) or counts)
    found = _reasons(records, several_cases)
    return Square(
        opset,
        state,
        in_words(counts),
        some_absent=counts[Status.ABSENT] > 0 and state is not State.ABSENT,
        reasons=tuple(reasons.setdefault(reason, len(reasons)) for reason in found[:MOST_REASONS]),
        more_reasons=max(0, len(found) - MOST_REASONS),
    )


def _reasons(records: Sequence[Record], several_cases: bool) -> list[Reason]:
    cases: defaultdict[tuple[Status, str, str], set[str]] = defaultdict(set)
    for record in records:
        if record.status is not Status.PASSED:
            cases[record.status, where(record), record.reason].add(record.case)
    ordered = sorted(cases, key=lambda key: (RANKS[key[0]], -len(cases[key])))
    return [
        Reason(
            state_of(status),
            stage_and_blame,
            _who(cases[status, stage_and_blame, reason]) if several_cases else "",
            shortened(reason),
        )
        for status, stage_and_blame, reason in ordered
    ]


def _who(cases: set[str]) -> str:
    return next(iter(cases)) if len(cases) == 1 else f"{len(cases)} cases"


def where(record: Record) -> str:
    """The stage and the blame: `compare · exporter`. Empty for an absent cell."""
    if record.status is Status.ABSENT:
        return ""
    return f"{stage_name(record.stage)} · {record.blame}" if record.blame else stage_name(record.stage)


def stage_name(stage: str) -> str:
    return stage.replace("_", " ")
