"""The summary of a run on the first page: a verdict, the counts, the pace, and facts about its environment."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from types import MappingProxyType

from onnx_parity.harness.record import WRONG, Kind, Record, RunInfo, Stage, Status
from onnx_parity.reports.arrangement import Declaration
from onnx_parity.reports.coverage import stage_name
from onnx_parity.reports.outcomes import LISTED, State, Tally, in_words, state_of
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
class ExporterOnRuntime:
    """An exporter with a runtime, and the outcomes of their cells."""

    exporter: str
    runtime: str
    cells: int
    outcomes: str


@dataclass(frozen=True, slots=True)
class Summary:
    verdict: str
    #: Whether the run fails.
    wrong: bool
    scope: str
    counts: tuple[StatusCount, ...]
    subjects: tuple[ExporterOnRuntime, ...]
    total: int
    pace: Pace | None
    facts: tuple[tuple[str, str], ...]
    packages: tuple[tuple[str, str], ...]
    missing: tuple[tuple[str, str], ...]
    #: How many cells were not run because the run ended before; 0 if none, or if that is unknown.
    lacking: int = 0


class RunMeter:
    """Counts what the summary says, declaration by declaration."""

    def __init__(self) -> None:
        self.counts: Tally = Counter()
        #: By exporter and runtime.
        self.by_subject: dict[tuple[str, str], Tally] = defaultdict(Counter)
        self.declarations: Counter[Kind] = Counter()
        self.cases = 0
        self.opsets: set[int] = set()
        self.carried = 0
        self.reused = 0
        self._by_worker: defaultdict[str, float] = defaultdict(float)
        self._by_stage: defaultdict[str, float] = defaultdict(float)

    def add(self, declaration: Declaration, records: Sequence[Record]) -> None:
        self.declarations[declaration.kind] += 1
        self.cases += len(declaration.cases)
        for record in records:
            self.counts[record.status] += 1
            self.by_subject[record.exporter, record.ran_on][record.status] += 1
            self.opsets.add(record.opset)
            self.carried += bool(record.carried)
            self.reused += bool(record.reused)
            for stage, seconds in record.seconds.items():
                self._by_worker[record.worker] += seconds
                self._by_stage[stage] += seconds

    def by_exporter(self) -> dict[str, Tally]:
        """The outcomes of the cells of each exporter, in the order of their names."""
        found: defaultdict[str, Tally] = defaultdict(Counter)
        for (exporter, _), counts in sorted(self.by_subject.items()):
            found[exporter].update(counts)
        return found

    def seconds_of(self, stage: str) -> float:
        """The time of a stage in all cells."""
        return self._by_stage.get(stage, 0.0)

    def pace(self) -> Pace | None:
        """The pace of the run; None if no stage has a duration."""
        ran = self.counts.total() - self.counts[Status.ABSENT]
        busiest = max(self._by_worker.values(), default=0.0)
        if not busiest:
            return None
        return Pace(ran / busiest, len(self._by_worker), busiest, stage_times(self._by_stage))


def summarize(info: RunInfo, meter: RunMeter, lacking: int = 0, *, unfinished: bool = False) -> Summary:
    counts = meter.counts
    told = verdict(counts, meter.by_exporter())
    if unfinished:
        share = f": {lacking / (lacking + counts.total()):.0%} of its cells were not run" if lacking else ""
        told = f"Unfinished{share}. {told}"
    return Summary(
        verdict=told,
        wrong=any(counts[status] for status in WRONG),
        scope=_scope(meter),
        counts=tuple(StatusCount(state_of(status), counts[status]) for status in LISTED if counts[status]),
        subjects=_subjects(meter),
        total=counts.total(),
        pace=meter.pace(),
        facts=_facts(info),
        packages=tuple(sorted(info.packages.items())),
        missing=tuple(sorted(info.missing.items())),
        lacking=lacking,
    )


def _subjects(meter: RunMeter) -> tuple[ExporterOnRuntime, ...]:
    """The outcome of each exporter and runtime; none if the run has only one of both."""
    if len(meter.by_subject) == 1:
        return ()
    return tuple(
        ExporterOnRuntime(exporter, runtime, counts.total(), in_words(counts))
        for (exporter, runtime), counts in sorted(meter.by_subject.items())
    )


def verdict(counts: Tally, by_exporter: Mapping[str, Tally] = MappingProxyType({})) -> str:
    """One sentence about the run. Cells that did not run, or are unsupported, are never counted as passed.

    Wrong results are counted for each exporter, if there are several.
    """
    ran = counts.total() - counts[Status.ABSENT]
    wrong = sum(counts[status] for status in WRONG)
    if not counts.total():
        return "Nothing ran."
    if not ran:
        return f"Nothing could run here: {plural(counts[Status.ABSENT], 'cell')} absent."
    if wrong and len(by_exporter) > 1:
        return f"Wrong cells of those that ran: {', '.join(starmap(_wrong_of, by_exporter.items()))}."
    if wrong:
        return f"{thousands(wrong)} of the {plural(ran, 'cell')} that ran {'is' if wrong == 1 else 'are'} wrong."
    new = " new" if counts[Status.KNOWN] else ""
    return f"Nothing{new} is wrong: {thousands(counts[Status.PASSED])} of the {plural(ran, 'cell')} that ran passed."


def _wrong_of(exporter: str, counts: Tally) -> str:
    wrong, ran = sum(counts[status] for status in WRONG), counts.total() - counts[Status.ABSENT]
    return f"{exporter} {thousands(wrong)} of {thousands(ran)}"


def stage_times(by_stage: dict[str, float]) -> tuple[StageTime, ...]:
    """The stages in the order in which they run. Stages that this version does not know come last."""
    order = [stage.value for stage in Stage]
    longest = max(by_stage.values(), default=0.0) or 1.0
    return tuple(
        StageTime(stage_name(stage), by_stage[stage], by_stage[stage] / longest)
        for stage in sorted(by_stage, key=lambda stage: order.index(stage) if stage in order else len(order))
    )


def _scope(meter: RunMeter) -> str:
    if not meter.counts:
        return "The run has no records: its selection matched nothing, or it was stopped before its first cell."
    kinds = ((Kind.OPERATOR, "operators"), (Kind.MODEL, "models"))
    declared = [f"{meter.declarations[kind]:,} of {noun}" for kind, noun in kinds if meter.declarations[kind]]
    return (
        f"Declarations: {' and '.join(declared)}, "
        f"in {plural(meter.cases, 'case')} and {plural(meter.counts.total(), 'cell')}, "
        f"at opset{'' if len(meter.opsets) == 1 else 's'} {opset_ranges(meter.opsets)}."
    )


def _without_presentation(words: Sequence[str]) -> Iterator[str]:
    """The words of a command line without those with which `parity run` has pytest print less."""
    rest = iter(words)
    for word in rest:
        if word in ("-o", "-p"):
            value = next(rest, "")
            if not value.startswith(("console_output_style=", "testpaths=", "no:warnings")):
                yield from (word, value)
        elif word not in ("-q", "--parity-pace"):
            yield word


def _facts(info: RunInfo) -> tuple[tuple[str, str], ...]:
    facts = (
        ("run", info.id),
        ("started", instant(info.started)),
        ("tier", info.tier),
        ("seed", str(info.seed)),
        ("commit", info.commit),
        ("platform", info.platform),
        ("processors", str(info.cpus) if info.cpus else ""),
        ("command", shlex.join(["pytest", *_without_presentation(info.argv)])),
    )
    return tuple((name, value) for name, value in facts if value)


def in_seconds(pace: Pace) -> str:
    return f"{duration(pace.busiest)} in stages on {plural(pace.workers, 'worker')}"
