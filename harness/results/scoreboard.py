"""The scoreboard of a run: what each runtime made of the models that it was given, operator by operator.

Only cells in which a runtime had a model to run are counted: a program that the exporter refused, and a runtime that is
not installed, say nothing about a runtime. What a runtime claims to support and gets wrong comes first.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from onnx_parity.harness.cell_ids import runtime_asked
from onnx_parity.harness.record import Blame, Ending, Kind, Record, Stage, Status
from onnx_parity.harness.results.causes import COMPARING

_BY_THE_RUNTIME = frozenset({Stage.LOAD, Stage.RUN, *COMPARING})
#: How a process that was over its limit of time, or died, is described: `running/cell_process.py`.
_HUNG, _DIED = re.compile(r"did not end within .* in stage"), re.compile(r"(was killed|exited|took more) .* in stage")
#: The text of an error begins with its class. One at a later set of inputs is in a stage that compares results.
_RAISED = re.compile(r"\w+: ")
#: The error of the harness for a runtime that writes into its inputs without an error of its own.
_WROTE = "ChangedInputError: "
#: Endings without an error of the runtime.
GRAVE = (Ending.WRONG, Ending.CRASHED, Ending.HUNG)


class RuntimeAfterSteps(msgspec.Struct, frozen=True, order=True):
    """A runtime, with what was done to the models before it ran them."""

    runtime: str
    transforms: str = ""

    def __str__(self) -> str:
        return f"{self.transforms} → {self.runtime}" if self.transforms else self.runtime


class Score(msgspec.Struct, frozen=True):
    """What a runtime made of the cells of one operator or model: how many ended in which way, and at which opsets."""

    cells: dict[Ending, int]
    opsets: dict[Ending, list[int]]

    @property
    def gravest(self) -> Ending:
        return next(ending for ending in Ending if ending in self.cells)


class OperatorScores(msgspec.Struct, frozen=True):
    """One operator or model."""

    kind: Kind
    family: str
    name: str
    scores: dict[str, Score]

    @property
    def all_alike(self) -> bool:
        return len({(score.gravest, len(score.cells) == 1) for score in self.scores.values()}) <= 1


class Finding(msgspec.Struct, frozen=True):
    """Cells of a case that a runtime claims to support, and gets wrong or does not survive, for one reason."""

    subject: str
    ending: Ending
    case: str
    dtype: str
    opsets: list[int]
    stage: Stage
    blame: Blame | None
    #: What differs, or how the process ended; and the reason for it, where an expectation gives one.
    reason: str
    known: str
    #: Of the other runtimes that ran the same models, how many are right, and how many there are.
    others_right: int
    others: int


class Scoreboard(msgspec.Struct, frozen=True):
    #: What a runtime claims to support and gets wrong, the gravest first, and what is not explained before the rest.
    findings: list[Finding]
    subjects: list[str]
    totals: dict[str, dict[Ending, int]]
    #: The seconds that each runtime took to load and run models, with the comparison of its outputs.
    seconds: dict[str, float]
    #: The seconds of the stages before, whose work runtimes share: reference, export, check, transformations.
    shared_seconds: float
    #: The same by the cells in which it was done: those of the runtime that was given a model first.
    shared_by: dict[str, float]
    rows: list[OperatorScores]
    #: Cells in which a runtime computed what others made wrong before, by whose mistake it is: `exporter torch_dynamo`.
    not_theirs: dict[str, int]


def _culprit(record: Record) -> str:
    """Whose mistake a cell shows, if it is not the runtime's; empty otherwise."""
    others = {
        Blame.EXPORTER: f"exporter {record.exporter}",
        Blame.TRANSFORMATION: f"transformation {record.transforms}",
    }
    return others.get(record.blame, "") if record.blame is not None else ""


def ending_of(record: Record) -> Ending | None:
    """What the runtime made of a cell's model; None if it got none, or is not there."""
    what = record.error or record.reason
    match record.status:
        case Status.PASSED | Status.UNEXPECTED_PASS:
            return Ending.UNSUPPORTED if runtime_asked(record) != record.runtime else Ending.RIGHT
        case Status.ABSENT:
            return Ending.UNSUPPORTED if record.declined else None
        case Status.CRASHED | Status.KNOWN | Status.FAILED if record.stage in _BY_THE_RUNTIME:
            if _HUNG.search(what):
                return Ending.HUNG
            if record.status is Status.CRASHED or _DIED.search(what):
                return Ending.CRASHED
            raised = record.stage not in COMPARING or _RAISED.match(what) is not None
            return Ending.REFUSED if raised and not what.startswith(_WROTE) else Ending.WRONG
        case _:
            return None


def score(records: Iterable[Record]) -> Scoreboard:
    """The scoreboard of the records of one run or several."""
    endings: list[tuple[Record, Ending]] = []
    own: defaultdict[str, float] = defaultdict(float)
    shared: defaultdict[str, float] = defaultdict(float)
    not_theirs: Counter[str] = Counter()
    for record in records:
        ending = ending_of(record)
        if ending is not None and (culprit := _culprit(record)):
            not_theirs[culprit] += 1
        elif ending is not None:
            endings.append((record, ending))
        of_runtime = sum(record.seconds.get(stage, 0.0) for stage in _BY_THE_RUNTIME)
        own[str(_subject(record))] += of_runtime
        shared[str(_subject(record))] += sum(record.seconds.values()) - of_runtime
    totals: defaultdict[str, Counter[Ending]] = defaultdict(Counter)
    by_name: defaultdict[tuple[Kind, str, str], defaultdict[str, list[tuple[Record, Ending]]]]
    by_name = defaultdict(lambda: defaultdict(list))
    points: defaultdict[tuple[object, ...], dict[RuntimeAfterSteps, Ending]] = defaultdict(dict)
    subjects: set[RuntimeAfterSteps] = set()
    for record, ending in endings:
        subject = _subject(record)
        subjects.add(subject)
        totals[str(subject)][ending] += 1
        by_name[record.kind, record.family, record.name][str(subject)].append((record, ending))
        points[_point(record)][subject] = ending
    rows = [
        OperatorScores(kind, family, name, {subject: _score_cells(cells) for subject, cells in by_subject.items()})
        for (kind, family, name), by_subject in sorted(by_name.items())
    ]
    names = [str(subject) for subject in sorted(subjects)]
    return Scoreboard(
        _findings(endings, points),
        names,
        {name: dict(totals[name]) for name in names},
        {name: own[name] for name in names},
        sum(shared.values()),
        {name: shared[name] for name in names},
        rows,
        dict(not_theirs.most_common()),
    )


def _subject(record: Record) -> RuntimeAfterSteps:
    return RuntimeAfterSteps(runtime_asked(record), record.transforms)


def _point(record: Record) -> tuple[object, ...]:
    """What cells that run the same model have in common."""
    axes = (record.device, record.capture, record.exporter, record.shapes, record.transforms)
    return (record.case, record.dtype, record.opset, *axes)


def _score_cells(cells: Sequence[tuple[Record, Ending]]) -> Score:
    opsets: defaultdict[Ending, set[int]] = defaultdict(set)
    for record, ending in cells:
        opsets[ending].add(record.opset)
    counts = Counter(ending for _, ending in cells)
    return Score(
        {ending: counts[ending] for ending in Ending if ending in counts},
        {ending: sorted(opsets[ending]) for ending in Ending if ending in opsets},
    )


def _findings(
    endings: Sequence[tuple[Record, Ending]], points: dict[tuple[object, ...], dict[RuntimeAfterSteps, Ending]]
) -> list[Finding]:
    groups: defaultdict[tuple[str, Ending, str, str, Stage], list[Record]] = defaultdict(list)
    for record, ending in endings:
        if ending in GRAVE:
            groups[str(_subject(record)), ending, record.case, record.dtype, record.stage].append(record)
    found = []
    for (subject, ending, case, dtype, stage), records in groups.items():
        first = records[0]
        others = [at for each, at in points[_point(first)].items() if str(each) != subject]
        ran = [at for at in others if at is not Ending.UNSUPPORTED]
        opsets = sorted({record.opset for record in records})
        known = first.reason if first.status is Status.KNOWN else ""
        found.append(
            Finding(
                subject, ending, case, dtype, opsets, stage, first.blame,
                first.error or first.reason,
                known,
                ran.count(Ending.RIGHT),
                len(ran),
            )
        )  # fmt: skip
    order = list(Ending)
    return sorted(
        found, key=lambda each: (order.index(each.ending), bool(each.known), each.subject, each.case, each.dtype)
    )
