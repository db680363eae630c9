"""The differences between a baseline and a run: fixes, and one kind for each way in which a release can get worse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from statistics import median
from typing import NamedTuple

import msgspec

from onnx_parity.harness.gate.policy import Policy, Thresholds
from onnx_parity.harness.record import WRONG, Record, RunEnd, RunInfo, Status
from onnx_parity.harness.results.causes import Cause, Causes
from onnx_parity.harness.results.completeness import is_unfinished, why_unfinished
from onnx_parity.harness.results.terminal_summary import explain_carried, explain_reused

#: The speed of the machine is estimated from at least this many cases.
_ENOUGH_CASES = 5


class FindingKind(StrEnum):
    """The kinds of findings. Their names are the fields of `policy.Findings`; their values are shown to users."""

    NEW_FAILURE = "new failure"
    LOST_COVERAGE = "lost coverage"
    NOT_RUN = "not run"
    UNFINISHED = "unfinished"
    CARRIED = "carried"
    REUSED = "reused"
    OUTDATED = "outdated"
    SHRUNK_HEADROOM = "shrunk headroom"
    SLOWER_EXPORT = "slower export"
    CHANGED_FAILURE = "changed failure"
    CANNOT_RUN_HERE = "cannot run here"
    FIX = "fix"


class Finding(msgspec.Struct, frozen=True):
    """One difference: of a cell, of a case for the time of its exports, or of the whole run."""

    kind: FindingKind
    #: A cell's id, a case's label, or empty for the whole run.
    subject: str
    detail: str
    case: str = ""
    opset: int = 0
    file: str = ""
    line: int = 0


class Found(NamedTuple):
    """A finding, and what tells its cause, if it is about a cell."""

    finding: Finding
    #: The record of the run; for a fix or a cell that was not run, that of the baseline.
    record: Record | None = None
    #: How the detail begins: how the cell ended in the other run.
    otherwise: str = ""


class GateCause(msgspec.Struct, frozen=True):
    """Findings of one kind that have one cause."""

    kind: FindingKind
    #: `aten::elu`, or the case or declarations that are concerned; empty for the whole run.
    subject: str
    #: `31 cells of 5 cases, opset 7-26, float32`; empty for the whole run.
    extent: str
    #: The detail of the first finding.
    detail: str
    findings: int = 1
    #: The labels of its cases, its opsets, and the command that runs one of its cells again.
    cases: list[str] = []
    opsets: list[int] = []
    again: str = ""
    file: str = ""
    line: int = 0


class Side(msgspec.Struct, frozen=True):
    """One of the two runs that are compared."""

    info: RunInfo
    end: RunEnd | None
    #: By cell. Those that cannot lead to a finding may be missing.
    records: dict[str, Record]
    #: The number of all its records, by status; of those that were carried over, by the run in which they ran; and of
    #: those that were run although an earlier run has them, by the reason.
    counts: dict[Status, int]
    carried: dict[str, int]
    rerun: dict[str, int]
    #: How many of its outcomes were known by their hashes, by the day on which they were found.
    reused: dict[str, int]
    #: What of it cannot be read; empty if all can.
    damage: str = ""


class ExportTime(msgspec.Struct, frozen=True):
    """How long a case's exports took in the baseline and in the run, over the cells that both exported."""

    before: float
    now: float
    file: str
    line: int


class Suspected(msgspec.Struct, frozen=True):
    """Cases whose exports seem to have become slower by one measure in each run."""

    cases: dict[str, ExportTime]
    #: How many times as long the median case took: the speed of the machine.
    speed: float
    #: Cases that are not suspected, those first whose exports take about as long.
    others: list[str]


def compare(baseline: Side, run: Side, policy: Policy) -> Iterator[Found]:
    """Every finding about cells and the run, including those that the policy ignores."""
    yield from map(Found, _of_the_run(run, policy.thresholds))
    for cell, now in run.records.items():
        before = baseline.records.get(cell)
        found = _of_cell(before, now) or (before and _of_headroom(before, now, policy.thresholds))
        if found:
            yield found
    # It is unknown which cells of a damaged run were not run.
    if not run.damage:
        yield from _not_run(baseline, run, policy.thresholds)


def same_machine(one: RunInfo, other: RunInfo) -> bool:
    """Whether durations of the two runs can be compared."""
    return (one.platform, one.cpus) == (other.platform, other.cpus)


def _of_the_run(run: Side, thresholds: Thresholds) -> Iterator[Finding]:
    if is_unfinished(run.info, run.end):
        yield Finding(
            FindingKind.UNFINISHED, "", f"{why_unfinished(run.info, run.end)}; parity run --resume completes it"
        )
    if run.carried:
        yield Finding(FindingKind.CARRIED, "", explain_carried(run.carried, run.rerun))
    if run.reused:
        yield Finding(FindingKind.REUSED, "", explain_reused(run.reused, sum(run.counts.values())))
        limit = datetime.fromisoformat(run.info.started) - timedelta(days=thresholds.reused_days)
        old = {day: number for day, number in run.reused.items() if day < limit.date().isoformat()}
        if old:
            before = f"more than {thresholds.reused_days:g} days before the run, the first on {min(old)}"
            how = "parity run --reuse-days runs such cells again"
            found = f"{sum(old.values())} of the reused outcomes are of {before}"
            yield Finding(FindingKind.OUTDATED, "", f"{found}; {how}")


def _of_cell(before: Record | None, now: Record) -> Found | None:
    was = before.status if before is not None else None
    if now.status in WRONG:
        if before is None:
            return _make_found(FindingKind.NEW_FAILURE, now, "not in the baseline; ")
        if before.status not in WRONG:
            return _make_found(FindingKind.NEW_FAILURE, now, f"{before.status} in the baseline; ")
        if (before.status, before.stage, before.blame) != (now.status, now.stage, now.blame):
            detail = f"{_ending(before)} in the baseline; {_ending(now)}"
            at = f"{before.status} {before.stage} {before.blame}"
            return Found(_finding(FindingKind.CHANGED_FAILURE, now, detail), now, at)
        return None
    if was is Status.PASSED and now.status is not Status.PASSED:
        kind = FindingKind.CANNOT_RUN_HERE if now.status is Status.ABSENT else FindingKind.LOST_COVERAGE
        return _make_found(kind, now, "passed in the baseline; ")
    if now.status is Status.PASSED and was in (*WRONG, Status.KNOWN, Status.UNSUPPORTED):
        assert before is not None
        return Found(_finding(FindingKind.FIX, now, f"passes; {_ending(before)} in the baseline"), before)
    return None


def _make_found(kind: FindingKind, record: Record, otherwise: str) -> Found:
    return Found(_finding(kind, record, otherwise + _ending(record)), record, otherwise)


def _of_headroom(before: Record, now: Record, thresholds: Thresholds) -> Found | None:
    if before.metrics is None or now.metrics is None or now.status is not Status.PASSED:
        return None
    was, is_now = before.metrics.headroom, now.metrics.headroom
    if is_now < thresholds.headroom_below and is_now * thresholds.headroom_factor <= was:
        detail = f"headroom {was:.3g} in the baseline, {is_now:.3g} now; below 1 the cell fails"
        return Found(_finding(FindingKind.SHRUNK_HEADROOM, now, detail), now)
    return None


def _not_run(baseline: Side, run: Side, thresholds: Thresholds) -> Iterator[Found]:
    executed = sum(number for status, number in baseline.counts.items() if status is not Status.ABSENT)
    missing = [
        record
        for record in baseline.records.values()
        if record.status is not Status.ABSENT and record.cell not in run.records
    ]
    if len(missing) > thresholds.not_run_share * executed:
        for record in missing:
            finding = _finding(FindingKind.NOT_RUN, record, f"{record.status} in the baseline; not run")
            # Whatever their operators, cells that are missing are missing together.
            alike = msgspec.structs.replace(record, aten=(), reason="", error="", name=record.family)
            yield Found(finding, alike, record.status)


def find_edited_declarations(before: Mapping[str, Record], now: Mapping[str, Record]) -> list[str]:
    """The names of the declarations whose source differs, where both runs know it."""
    pairs = ((before.get(cell), record) for cell, record in now.items())
    edited = {
        record.name
        for earlier, record in pairs
        if earlier is not None and earlier.source and record.source and earlier.source != record.source
    }
    return sorted(edited)


def export_times(before: Mapping[str, Record], now: Mapping[str, Record]) -> dict[str, ExportTime]:
    """How long the exports of each case took."""
    cases: defaultdict[str, list[tuple[Record, Record]]] = defaultdict(list)
    for cell, record in now.items():
        other = before.get(cell)
        if other is not None and "export" in record.seconds and "export" in other.seconds and not record.carried:
            cases[record.case].append((other, record))
    return {
        case: ExportTime(*_export_seconds(pairs), file=pairs[0][1].file, line=pairs[0][1].line)
        for case, pairs in cases.items()
    }


def suspect_exports(exports: Mapping[str, ExportTime], thresholds: Thresholds) -> Suspected:
    """Cases whose exports slowed down more than the median case did. What slows all cases down is the machine."""
    ratios = [time.now / time.before for time in exports.values() if time.before > 0]
    speed = median(ratios) if len(ratios) >= _ENOUGH_CASES else 1.0
    cases = {
        case: time
        for case, time in exports.items()
        if _is_slower(time.before * speed, time.now, thresholds.export_factor, thresholds.export_seconds)
    }
    typical = median(time.before for time in cases.values()) if cases else 0.0
    others = sorted(exports.keys() - cases, key=lambda case: (abs(exports[case].before - typical), case))
    return Suspected(cases, speed, others)


def slower_exports(suspected: Suspected, ratios: Mapping[str, float], thresholds: Thresholds) -> Iterator[Finding]:
    """The suspected cases that are slower by repeated measures too. `ratios`: how many times as long each takes."""
    for case, time in suspected.cases.items():
        ratio = ratios.get(case, 0.0)
        scaled = time.before * suspected.speed
        if _is_slower(scaled, scaled * ratio, thresholds.export_factor, thresholds.export_seconds):
            detail = (
                f"exports take {ratio:.2g} times as long, by the least of several measures; in the runs they took "
                f"{scaled:.3g} s, scaled to this machine's speed, and {time.now:.3g} s"
            )
            yield Finding(FindingKind.SLOWER_EXPORT, case, detail, case, 0, time.file, time.line)


def _is_slower(before: float, now: float, factor: float, seconds: float) -> bool:
    return now > before * factor and now - before > seconds


def _export_seconds(pairs: Sequence[tuple[Record, Record]]) -> tuple[float, float]:
    """How long a case's exports took in both runs, in processor time if both have it: load hardly affects it."""
    if all(old.export_cpu and new.export_cpu for old, new in pairs):
        return sum(old.export_cpu for old, _ in pairs), sum(new.export_cpu for _, new in pairs)
    return sum(old.seconds["export"] for old, _ in pairs), sum(new.seconds["export"] for _, new in pairs)


def _finding(kind: FindingKind, record: Record, detail: str) -> Finding:
    case = f"{record.case} {record.dtype}"
    return Finding(kind, record.cell, detail, case, record.opset, record.file, record.line)


def _ending(record: Record) -> str:
    """`failed at compare (exporter): off by 0.5`."""
    status = record.status.words
    blame = f" ({record.blame})" if record.blame else ""
    at = "" if record.status in (Status.PASSED, Status.ABSENT) else f" at {record.stage}"
    return f"{status}{at}{blame}" + (f": {record.reason}" if record.reason else "")


def by_cause(found: Iterable[Found]) -> list[GateCause]:
    """The findings as causes: those of one kind, of cells that ended alike for one cause, and ended alike before."""
    alone = []
    causes = Causes()
    for finding, record, otherwise in found:
        if record is None:
            alone.append(_alone(finding))
        else:
            causes.add(record, f"{finding.kind.name} {otherwise}", finding.detail)
    return [*alone, *map(_gate_cause, causes.rows())]


def _alone(finding: Finding) -> GateCause:
    return GateCause(finding.kind, finding.case, "", finding.detail, file=finding.file, line=finding.line)


def _gate_cause(cause: Cause) -> GateCause:
    first = cause.first
    return GateCause(
        FindingKind[cause.label.partition(" ")[0]],
        cause.subject, cause.extent, cause.detail, cause.cells,
        list(cause.cases),
        sorted(cause.opsets),
        first.again,
        first.file,
        first.line,
    )  # fmt: skip
