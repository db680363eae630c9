"""The verdict of a gate: the findings, the policy's action for each, and the differences of the environments."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from onnx_parity.harness.gate.differing import find_differing
from onnx_parity.harness.gate.findings import (
    ExportTime,
    Finding,
    FindingKind,
    Found,
    GateCause,
    Side,
    Suspected,
    by_cause,
    compare,
    export_times,
    find_edited_declarations,
    same_machine,
    slower_exports,
    suspect_exports,
)
from onnx_parity.harness.gate.policy import Action, Policy
from onnx_parity.harness.gate.remeasuring import NotMeasuredError
from onnx_parity.harness.record import RunEnd, RunInfo, Status
from onnx_parity.harness.results.causes import name_few
from onnx_parity.harness.results.completeness import is_unfinished
from onnx_parity.harness.results.terminal_summary import count_reused, explain_reused
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import Records, read_columns, read_end, read_info, read_records


class GateResult(msgspec.Struct, frozen=True):
    baseline: str
    run: str
    #: The policy's action for each kind of finding.
    actions: dict[FindingKind, Action]
    findings: list[Finding]
    #: The same findings, those of one cause together.
    causes: list[GateCause]
    #: Differences of the environments: `torch 2.12.1 → 2.13.0`.
    environment: list[str]
    #: For each status, the numbers of cells in the baseline and in the run.
    counts: dict[Status, tuple[int, int]]
    times_compared: bool
    #: What could not be decided, and why.
    undecided: list[str]
    #: What of the run cannot be read; empty if all can. Its cells are not among the findings.
    damage: str = ""
    #: For each status, the numbers of cells that only the baseline has, and only the run.
    coverage: dict[Status, tuple[int, int]] = {}

    @property
    def regressed(self) -> bool:
        return bool(self.with_action(Action.FAIL))

    def with_action(self, action: Action) -> list[Finding]:
        return [finding for finding in self.findings if self.actions[finding.kind] is action]

    def causes_with(self, action: Action) -> list[GateCause]:
        return [cause for cause in self.causes if self.actions[cause.kind] is action]


#: Measures exports again: of the suspected cases and others, how many times as long each of the former takes.
Measure: TypeAlias = Callable[[Sequence[str], Sequence[str]], Mapping[str, float]]


def judge(baseline: Path, run: Path, policy: Policy, measure: Measure | None = None) -> GateResult:
    """Compare the run with the baseline. Without `measure`, exports that seem slower are not judged."""
    before, now, compared = _sides(baseline, run)
    _refuse_baseline(baseline, before)
    if before.info.seed != now.info.seed:
        raise RunStoreError(
            f"{run} cannot be compared with {baseline}: it was run with --seed {now.info.seed}, the baseline with "
            f"--seed {before.info.seed}, so that their cells had other inputs and weights. "
            f"Run it again with --seed {before.info.seed}."
        )
    old, new = Counter(before.counts), Counter(now.counts)
    found = list(compare(before, now, policy))
    undecided: list[str] = []
    if same_machine(before.info, now.info):
        suspected = suspect_exports(compared.exports, policy.thresholds)
        ratios, undecided = _measure_again(suspected, measure)
        found += map(Found, slower_exports(suspected, ratios, policy.thresholds))
    return GateResult(
        baseline=before.info.id,
        run=now.info.id,
        actions={kind: getattr(policy.findings, kind.name.lower()) for kind in FindingKind},
        findings=[each.finding for each in found],
        causes=by_cause(found),
        environment=[
            *changes(before.info, now.info),
            *_find_edited_files(before, now),
            *_differ("declarations", compared.edited),
            *([explain_reused(now.reused, sum(now.counts.values()))] if now.reused else []),
        ],
        counts={status: (old[status], new[status]) for status in Status if status in old or status in new},
        times_compared=same_machine(before.info, now.info),
        undecided=undecided,
        damage=now.damage,
        coverage=_coverage(before, now),
    )


def _coverage(before: Side, now: Side) -> dict[Status, tuple[int, int]]:
    gone = Counter(record.status for cell, record in before.records.items() if cell not in now.records)
    new = Counter(record.status for cell, record in now.records.items() if cell not in before.records)
    return {status: (gone[status], new[status]) for status in Status if status in gone or status in new}


def _measure_again(suspected: Suspected, measure: Measure | None) -> tuple[Mapping[str, float], list[str]]:
    """How many times as long the suspected exports take; or why that was not measured."""
    if not suspected.cases:
        return {}, []
    try:
        if measure is None:
            raise NotMeasuredError("`parity gate` does that")
        return measure(list(suspected.cases), suspected.others), []
    except NotMeasuredError as error:
        number = len(suspected.cases)
        cases = f"{number} case{'s' * (number != 1)}"
        why = f"exports of {cases} took longer and were not measured again, which alone would decide: {error}"
        return {}, [f"{why} ({name_few(suspected.cases)})"]


#: At most this many changed files or declarations are named.
_NAMED = 5


def _find_edited_files(before: Side, now: Side) -> list[str]:
    """The files of the exporter and the harness that differ. Versions of packages do not show edits."""
    old, new = before.info.contents, now.info.contents
    return _differ(
        "files", sorted(file for file in {**old, **new} if old.get(file) != new.get(file)) if old and new else []
    )


def _differ(what: str, names: Sequence[str]) -> list[str]:
    more = ", ..." if len(names) > _NAMED else ""
    number = f"1 {what.removesuffix('s')} differs" if len(names) == 1 else f"{len(names)} {what} differ"
    return [f"{number}: {', '.join(names[:_NAMED])}{more}"] if names else []


def changes(before: RunInfo, now: RunInfo) -> list[str]:
    """The differences of the environments of the two runs."""
    pairs = [(name, before.packages.get(name), now.packages.get(name)) for name in {**before.packages, **now.packages}]
    pairs += [("platform", before.platform, now.platform), ("cpus", str(before.cpus), str(now.cpus))]
    pairs += [("tier", before.tier, now.tier), ("commit", before.commit[:12], now.commit[:12])]
    pairs += [("uncommitted edits", before.edits, now.edits)]
    pairs += [(name, before.missing.get(name), now.missing.get(name)) for name in {**before.missing, **now.missing}]
    return [f"{name} {old or 'none'} → {new or 'none'}" for name, old, new in pairs if old != new]


class _Compared(NamedTuple):
    """What is known of the cells that both runs have."""

    #: The times of each case.
    exports: Mapping[str, ExportTime]
    #: The names of the declarations whose source differs.
    edited: list[str]


def _sides(baseline: Path, run: Path) -> tuple[Side, Side, _Compared]:
    """What is compared of the two runs."""
    old, new = (read_info(baseline), read_end(baseline)), (read_info(run), read_end(run))
    before, now = read_columns(baseline), read_columns(run)
    if before is not None and now is not None:
        differing = find_differing(before, now)
        one, other = (
            Side(*about, part.records, part.counts, part.carried, part.rerun, part.reused)
            for about, part in ((old, differing.before), (new, differing.now))
        )
        return one, other, _Compared(differing.exports, differing.edited)
    one, other = _side(*old, read_records(baseline)), _side(*new, read_records(run))
    exports = export_times(one.records, other.records)
    return one, other, _Compared(exports, find_edited_declarations(one.records, other.records))


def _side(info: RunInfo, end: RunEnd | None, records: Records) -> Side:
    counts = Counter(record.status for record in records)
    carried = Counter(record.carried for record in records if record.carried)
    rerun = Counter(record.rerun for record in records if record.rerun)
    by_cell = {record.cell: record for record in records}
    return Side(info, end, by_cell, counts, carried, rerun, count_reused(records), records.damage)


def _refuse_baseline(baseline: Path, side: Side) -> None:
    """Refuse a baseline that lacks cells, for what they were in it cannot be seen to get worse."""
    if side.damage:
        why = side.damage
    elif is_unfinished(side.info, side.end):
        why = f"it is unfinished. To complete it: parity run --resume {shlex.quote(str(baseline))}"
    elif not side.counts:
        why = "it has no cells."
    else:
        return
    raise RunStoreError(f"{baseline} cannot be a baseline: {why}")
