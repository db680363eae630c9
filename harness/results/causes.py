"""Cells that ended alike for one cause, as one row: the terminal, the gate and the reports list causes, not cells.

Cells have one cause if they agree in all of these:

1. the exporter, the status, and the blame (and the runtime, if that is to blame);
2. the stage, where all stages that compare outputs count as one;
3. the error, whatever numbers, dtypes and shapes it names;
4. the operator: that which the error names, or else the traced ones. What is rightly refused has one row for each
   reason, whatever operators it is given for.

A program that consists of several operators fails because of one of them. So it belongs to the smallest program that
ended in the same way with no other operators than its own, at the same opsets: a network to the `elu` within it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import msgspec

from onnx_parity.harness.axes import ADAPTERS, PARITY
from onnx_parity.harness.opset_ranges import opset_ranges
from onnx_parity.harness.record import GRAVEST_FIRST, Blame, Record, Stage, Status

#: The stages that compare outputs. A wrong formula is found by the example or only by other values.
COMPARING = (Stage.COMPARE, Stage.RERUN_SIZES, Stage.RERUN_VALUES)
#: A row names at most this many cases or declarations, and counts the others.
MOST_NAMED = 3

#: Statuses whose reason is the cause, whatever the operator.
_ONE_FOR_EACH_REASON = (Status.UNSUPPORTED, Status.KNOWN, Status.ABSENT)
_RANKS = {status: rank for rank, status in enumerate(GRAVEST_FIRST)}
_STAGES = tuple(Stage)
#: Numbers, dtypes, and other values, which differ from cell to cell, and quoted names.
_VALUES = re.compile(
    r"(?<!\w)'[^']*'|-?\b\d[\d.]*(?:e[+-]?\d+)?\b|\b(?:u?int\d+|b?float\d+|complex\d+|double|bool|nan|inf|True|False)\b"
    r"|(?<=[a-z_])\d+\b"
)
#: Several values in a row: an index, a list; and shapes, which may have names in them.
_SEVERAL = re.compile(r"\(?\*(?:\s*[,x]\s*\*)*,?\)?|\[[^\[\]]*\]")
#: The input set with which an error occurred, at the end of its message.
_INPUT_SET = re.compile(r" \((?:other values|\w+=\d+(?:, \w+=\d+)*)\)$")
#: How the oracle begins to describe two values that differ, and the words in which it says that a zero's sign does.
_VALUES_DIFFER, _SIGN_OF_ZERO = re.compile(r"output \d+ at \("), "the sign of zero"
#: An operator, and its overload, of which two have one lowering.
_OPERATOR = re.compile(r"\b([a-z_]\w*::\w+)(?:\.\w+)?")


class _CauseKey(NamedTuple):
    """What the cells of a cause have in common, except for their operators."""

    #: What the caller distinguishes besides, such as the kind of a finding.
    label: str
    status: Status
    #: Empty for the stages that compare. Where the reason is the cause, stage and blame do not matter.
    stage: str
    blame: Blame | None
    exporter: str
    #: With what was done to the model before; empty unless the runtime or a transformation is to blame.
    runtime: str
    error: str


class CauseSummary(msgspec.Struct, frozen=True):
    """A cause as `--json` prints it."""

    subject: str
    status: Status
    where: str
    extent: str
    cells: int
    cases: tuple[str, ...]
    opsets: tuple[int, ...]
    detail: str
    again: str


@dataclass(slots=True)
class Cause:
    """Cells of one cause. Where a row shows a single cell, it is the first one, which has the fewest operators."""

    label: str
    first: Record
    detail: str
    #: The operator that is the cause, or those of the smallest program; empty if none is known. Of what is refused,
    #: all operators that were refused for this reason.
    operators: set[str]
    cells: int = 0
    opsets: set[int] = field(default_factory=set)
    stages: set[Stage] = field(default_factory=set)
    dtypes: dict[str, None] = field(default_factory=dict)
    #: The labels of the cases, and the names of their declarations.
    cases: dict[str, None] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)

    @property
    def status(self) -> Status:
        return self.first.status

    @property
    def subject(self) -> str:
        """What is to be looked at: an operator if it is known, a case if there is one, or else declarations."""
        if len(self.operators) == 1 or (self.operators and self.status is Status.UNSUPPORTED):
            subject = name_few(sorted(self.operators))
        else:
            subject = name_few(self.cases if len(self.cases) == 1 else self.names)
        if self.first.transforms or self.first.runtime in ADAPTERS:
            subject = f"{subject} in {self.first.ran_on}"
        return subject if self.first.exporter == PARITY else f"{subject} by {self.first.exporter}"

    @property
    def where(self) -> str:
        """`compare (exporter)`."""
        stages = ", ".join(stage for stage in _STAGES if stage in self.stages)
        return f"{stages} ({self.first.blame})" if self.first.blame else stages

    @property
    def extent(self) -> str:
        """`31 cells of 5 cases, opset 7-26, float16, float32`."""
        cells = f"{self.cells} cell{'s' * (self.cells != 1)}"
        of = f" of {len(self.cases)} cases" if len(self.cases) > 1 else ""
        return f"{cells}{of}, opset {opset_ranges(self.opsets)}, {name_few(self.dtypes)}"

    @property
    def again(self) -> str:
        """The command that runs one of its cells again."""
        return self.first.again

    @property
    def summary(self) -> CauseSummary:
        opsets = tuple(sorted(self.opsets))
        return CauseSummary(
            self.subject, self.status, self.where, self.extent, self.cells, tuple(self.cases), opsets, self.detail,
            self.again,
        )  # fmt: skip


class Causes:
    """Collects cells, one at a time, and keeps of them only what their rows say."""

    def __init__(self) -> None:
        #: By kind and operators.
        self._found: dict[_CauseKey, dict[frozenset[str], Cause]] = defaultdict(dict)

    def add(self, record: Record, label: str = "", detail: str = "") -> None:
        """Add a cell. Those of another label have another cause; `detail` is shown in place of the reason."""
        # What is expected has the expectation's reason, whatever the error was.
        error = record.reason if record.status is Status.KNOWN else record.error or record.reason
        kind = _kind(record, label, error)
        operators = _operators(record, error)
        alike = self._found[kind]
        # Where no operators are known, the name of the declaration is all that there is to go by.
        key = frozenset() if record.status in _ONE_FOR_EACH_REASON else operators or frozenset({record.name})
        cause = alike.get(key)
        if cause is None:
            cause = alike[key] = Cause(label, record, detail or record.reason, set(operators))
        elif not key:
            cause.operators |= operators
        cause.cells += 1
        cause.opsets.add(record.opset)
        cause.stages.add(record.stage)
        cause.dtypes[record.dtype] = cause.cases[record.case] = cause.names[record.name] = None

    def rows(self) -> list[Cause]:
        """One row for each cause, the gravest first, otherwise in the order in which they were found."""
        rows = [cause for alike in self._found.values() for cause in _join_causes(alike)]
        return sorted(rows, key=lambda cause: _RANKS[cause.status])


def causes_of(records: Iterable[Record]) -> list[Cause]:
    """The causes of these cells."""
    causes = Causes()
    for record in records:
        causes.add(record)
    return causes.rows()


def name_few(names: Iterable[str]) -> str:
    """`elu, celu, selu and 2 more`."""
    every = list(names)
    if len(every) <= MOST_NAMED + 1:
        return ", ".join(every)
    return f"{', '.join(every[:MOST_NAMED])} and {len(every) - MOST_NAMED} more"


def _kind(record: Record, label: str, error: str) -> _CauseKey:
    if record.status in _ONE_FOR_EACH_REASON:
        return _CauseKey(label, record.status, "", None, record.exporter, "", _likeness(error))
    return _CauseKey(
        label,
        record.status,
        "" if record.stage in COMPARING else record.stage,
        record.blame,
        record.exporter,
        record.ran_on if record.blame in (Blame.RUNTIME, Blame.TRANSFORMATION) else "",
        _likeness(error),
    )


@lru_cache(1 << 14)
def _likeness(error: str) -> str:
    """The error without what differs between cells of one cause."""
    if _VALUES_DIFFER.match(error):
        return _SIGN_OF_ZERO if _SIGN_OF_ZERO in error else "values differ"
    # A reason of an operator counts without its name, which counts by itself, and so do further operators.
    reason = _OPERATOR.sub("*", _INPUT_SET.sub("", error).partition("; ")[0])
    return _SEVERAL.sub("*", _VALUES.sub("*", reason))


def _operators(record: Record, error: str) -> frozenset[str]:
    """The operator that the error names first, or else those that were traced."""
    in_error = _operator_in(error)
    return frozenset({in_error}) if in_error else _as_set(record.aten)


@lru_cache(1 << 14)
def _operator_in(error: str) -> str:
    found = _OPERATOR.search(error)
    return found[1] if found else ""


@lru_cache(1 << 14)
def _as_set(aten: tuple[str, ...]) -> frozenset[str]:
    return frozenset(aten)


def _join_causes(alike: dict[frozenset[str], Cause]) -> Iterator[Cause]:
    """The causes of one kind, each with those whose programs contain all of its operators."""
    kept: list[tuple[frozenset[str], Cause]] = []
    for operators, cause in sorted(alike.items(), key=lambda item: len(item[0])):
        smaller = next((each for inner, each in kept if inner < operators and _spans(each, cause)), None)
        if smaller is None:
            kept.append((operators, cause))
        else:
            _take(smaller, cause)
    order = {id(cause): number for number, cause in enumerate(alike.values())}
    yield from sorted((cause for _, cause in kept), key=lambda cause: order[id(cause)])


def _spans(smaller: Cause, larger: Cause) -> bool:
    """Whether the one occurs from the lowest to the highest opset of the other. Else it does not explain that one."""
    return min(smaller.opsets) <= min(larger.opsets) and max(larger.opsets) <= max(smaller.opsets)


def _take(cause: Cause, other: Cause) -> None:
    cause.cells += other.cells
    cause.opsets |= other.opsets
    cause.stages |= other.stages
    cause.dtypes |= other.dtypes
    cause.cases |= other.cases
    cause.names |= other.names
