"""The summary of a run on the first page: a verdict, the counts, the pace, and facts about its environment."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from onnx_parity.harness.record import WRONG, Record, RunInfo, Stage, Status
from onnx_parity.reports.arrangement import Declaration
from onnx_parity.reports.coverage import stage_name
from onnx_parity.reports.outcomes import LISTED, State, Tally, state_of, tally
from onnx_parity.reports.wording import duration, instant, opset_ranges, plural, thousands


@dataclass(frozen=True, slots=True)
class StatusCount:
    state: State
    cells: int


@dataclass(frozen=True, slots=True)
class StageTime:
    name: str
    seconds: float
    #: Its time divided by that of the longest stage.
    share: float


@dataclass(frozen=True, slots=True)
class Pace:
    """Cells per second within stages. The time that the harness takes between stages is not included."""

    cells_per_second: float
    workers: int
    #: The time in stages of the busiest worker. The run took at least as long.
    busiest: float
    stages: tuple[StageTime, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    verdict: str
    #: Whether the run fails.
    wrong: bool
    scope: str
    counts: tuple[StatusCount, ...]
    total: int
    pace: Pace | None
    facts: tuple[tuple[str, str], ...]
    packages: tuple[tuple[str, str], ...]
    missing: tuple[tuple[str, str], ...]


def summarize(info: RunInfo, declarations: Sequence[Declaration]) -> Summary:
    records = [record for declaration in declarations for record in declaration.records]
    counts = tally(records)
    return Summary(
        verdict=verdict(counts),
        wrong=any(counts[status] for status in WRONG),
        scope=_scope(declarations, records),
        counts=tuple(StatusCount(state_of(status), counts[status]) for status in LISTED if counts[status]),
        total=len(records),
        pace=measure_pace(records),
        facts=_facts(info),
        packages=tuple(sorted(info.packages.items())),
        missing=tuple(sorted(info.missing.items())),
    )


def verdict(counts: Tally) -> str:
    """One sentence about the run. Cells that did not run, or are unsupported, are never counted as passed."""
    ran = counts.total() - counts[Status.ABSENT]
    wrong = sum(counts[status] for status in WRONG)
    if not counts.total():
        return "Nothing ran."
    if not ran:
        return f"Nothing could run here: {plural(counts[Status.ABSENT], 'cell')} absent."
    if wrong:
        return f"{thousands(wrong)} of the {plural(ran, 'cell')} that ran {'is' if wrong == 1 else 'are'} wrong."
    new = " new" if counts[Status.KNOWN] else ""
    return f"Nothing{new} is wrong: {thousands(counts[Status.PASSED])} of the {plural(ran, 'cell')} that ran passed."


def measure_pace(records: Sequence[Record]) -> Pace | None:
    """The pace of the run; None if no stage has a duration."""
    by_worker: defaultdict[str, float] = defaultdict(float)
    by_stage: defaultdict[str, float] = defaultdict(float)
    ran = 0
    for record in records:
        ran += record.status is not Status.ABSENT
        for stage, seconds in record.seconds.items():
            by_worker[record.worker] += seconds
            by_stage[stage] += seconds
    busiest = max(by_worker.values(), default=0.0)
    if not busiest:
        return None
    return Pace(ran / busiest, len(by_worker), busiest, stage_times(by_stage))


def stage_times(by_stage: dict[str, float]) -> tuple[StageTime, ...]:
    """The stages in the order in which they run. Stages that this version does not know come last."""
    order = [stage.value for stage in Stage]
    longest = max(by_stage.values(), default=0.0) or 1.0
    return tuple(
        StageTime(stage_name(stage), by_stage[stage], by_stage[stage] / longest)
        for stage in sorted(by_stage, key=lambda stage: order.index(stage) if stage in order else len(order))
    )


def _scope(declarations: Sequence[Declaration], records: Sequence[Record]) -> str:
    if not records:
        return "The run has no records: its selection matched nothing, or it was stopped before its first cell."
    operators = sum(declaration.kind == "operator" for declaration in declarations)
    models = len(declarations) - operators
    declared = [plural(number, noun) for number, noun in ((operators, "operator"), (models, "model")) if number]
    opsets = {record.opset for record in records}
    return (
        f"{' and '.join(declared)} in {plural(sum(len(d.cases) for d in declarations), 'case')} and "
        f"{plural(len(records), 'cell')}, at opset{'' if len(opsets) == 1 else 's'} {opset_ranges(opsets)}."
    )


def _facts(info: RunInfo) -> tuple[tuple[str, str], ...]:
    facts = (
        ("run", info.id),
        ("started", instant(info.started)),
        ("tier", info.tier),
        ("seed", str(info.seed)),
        ("commit", info.commit),
        ("platform", info.platform),
        ("processors", str(info.cpus) if info.cpus else ""),
        ("command", shlex.join(info.argv)),
    )
    return tuple((name, value) for name, value in facts if value)


def in_seconds(pace: Pace) -> str:
    return f"{duration(pace.busiest)} in stages on {plural(pace.workers, 'worker')}"
