"""The differences between a baseline and a run: fixes, and one kind for each way in which a release can get worse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from statistics import median

import msgspec

from onnx_parity.harness.gate.policy import Policy, Thresholds
from onnx_parity.harness.record import WRONG, Record, RunEnd, RunInfo, Status

#: The speed of the machine is estimated from at least this many cases.
_ENOUGH_CASES = 5


class FindingKind(StrEnum):
    """The kinds of findings. Their names are the fields of `policy.Findings`; their values are shown to users."""

    NEW_FAILURE = "new failure"
    LOST_COVERAGE = "lost coverage"
    NOT_RUN = "not run"
    UNFINISHED = "unfinished"
    CARRIED = "carried"
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
    #: Findings with the same case are shown together: one fault often appears at twenty opsets.
    case: str = ""
    opset: int = 0
    file: str = ""
    line: int = 0


class Side(msgspec.Struct, frozen=True):
    """One of the two runs that are compared."""

    info: RunInfo
    end: RunEnd | None
    #: By cell. Those that cannot lead to a finding may be missing.
    records: dict[str, Record]
    #: The number of all its records, by status, and of those that were carried over.
    counts: dict[Status, int]
    carried: int
    #: What of it cannot be read; empty if all can.
    damage: str = ""


class ExportTime(msgspec.Struct, frozen=True):
    """How long a case's exports took in the baseline and in the run, over the cells that both exported."""

    before: float
    now: float
    file: str
    line: int


def compare(baseline: Side, run: Side, exports: Mapping[str, ExportTime], policy: Policy) -> Iterator[Finding]:
    """Every finding, including those that the policy ignores. `exports` are the times of each case."""
    yield from _of_the_run(run)
    for cell, now in run.records.items():
        before = baseline.records.get(cell)
        found = _of_cell(before, now) or (before and _of_headroom(before, now, policy.thresholds))
        if found:
            yield found
    # Which cells of a damaged run were not run cannot be told.
    if not run.damage:
        yield from _not_run(baseline, run, policy.thresholds)
    if same_machine(baseline.info, run.info):
        yield from _slower_exports(exports, policy.thresholds)


def same_machine(one: RunInfo, other: RunInfo) -> bool:
    """Whether durations of the two runs can be compared."""
    return (one.platform, one.cpus) == (other.platform, other.cpus)


def _of_the_run(run: Side) -> Iterator[Finding]:
    # Runs of schema version 1 have no record of their end.
    if run.end is None and run.info.schema_version > 1:
        yield Finding(
            FindingKind.UNFINISHED, "", "the run was killed or is still running; to complete it: parity run --resume"
        )
    elif run.end is not None and not run.end.whole:
        yield Finding(
            FindingKind.UNFINISHED, "", "the run was stopped before its end; to complete it: parity run --resume"
        )
    if run.carried:
        yield Finding(
            FindingKind.CARRIED,
            "",
            f"{run.carried} cells were not run: their results were carried over from an earlier run",
        )


def _of_cell(before: Record | None, now: Record) -> Finding | None:
    was = before.status if before is not None else None
    if now.status in WRONG:
        if before is None:
            return _finding(FindingKind.NEW_FAILURE, now, f"not in the baseline; {_ending(now)}")
        if before.status not in WRONG:
            return _finding(FindingKind.NEW_FAILURE, now, f"{before.status} in the baseline; {_ending(now)}")
        if (before.status, before.stage, before.blame) != (now.status, now.stage, now.blame):
            return _finding(FindingKind.CHANGED_FAILURE, now, f"{_ending(before)} in the baseline; {_ending(now)}")
        return None
    if was is Status.PASSED and now.status is not Status.PASSED:
        kind = FindingKind.CANNOT_RUN_HERE if now.status is Status.ABSENT else FindingKind.LOST_COVERAGE
        return _finding(kind, now, f"passed in the baseline; {_ending(now)}")
    if now.status is Status.PASSED and was in (*WRONG, Status.KNOWN, Status.UNSUPPORTED):
        assert before is not None
        return _finding(FindingKind.FIX, now, f"passes; {_ending(before)} in the baseline")
    return None


def _of_headroom(before: Record, now: Record, thresholds: Thresholds) -> Finding | None:
    if before.metrics is None or now.metrics is None or now.status is not Status.PASSED:
        return None
    was, is_now = before.metrics.headroom, now.metrics.headroom
    if is_now < thresholds.headroom_below and is_now * thresholds.headroom_factor <= was:
        return _finding(
            FindingKind.SHRUNK_HEADROOM,
            now,
            f"headroom {was:.3g} in the baseline, {is_now:.3g} now; below 1 the cell fails",
        )
    return None


def _not_run(baseline: Side, run: Side, thresholds: Thresholds) -> Iterator[Finding]:
    executed = sum(number for status, number in baseline.counts.items() if status is not Status.ABSENT)
    missing = [
        record
        for record in baseline.records.values()
        if record.status is not Status.ABSENT and record.cell not in run.records
    ]
    if len(missing) > thresholds.not_run_share * executed:
        for record in missing:
            yield _finding(FindingKind.NOT_RUN, record, f"{record.status} in the baseline; not run")


def edited_declarations(before: Mapping[str, Record], now: Mapping[str, Record]) -> list[str]:
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


def _slower_exports(exports: Mapping[str, ExportTime], thresholds: Thresholds) -> Iterator[Finding]:
    """Cases whose exports slowed down more than the median case did. What slows all cases down is the machine."""
    ratios = [time.now / time.before for time in exports.values() if time.before > 0]
    speed = median(ratios) if len(ratios) >= _ENOUGH_CASES else 1.0
    for case, time in exports.items():
        scaled = time.before * speed
        if time.now > scaled * thresholds.export_factor and time.now - scaled > thresholds.export_seconds:
            detail = (
                f"exports took {scaled:.3g} s in the baseline, scaled to this machine's speed, and {time.now:.3g} s now"
            )
            yield Finding(FindingKind.SLOWER_EXPORT, case, detail, case, 0, time.file, time.line)


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


def grouped(findings: Sequence[Finding]) -> dict[tuple[FindingKind, str, str], list[Finding]]:
    """Findings that differ only in their opset, by their kind, case and detail."""
    groups: defaultdict[tuple[FindingKind, str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[finding.kind, finding.case, finding.detail].append(finding)
    return groups
