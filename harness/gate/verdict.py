"""The verdict of a gate: the findings, the policy's action for each, and the differences of the environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec

from onnx_parity.harness.gate.differing import find_differing
from onnx_parity.harness.gate.findings import (
    ExportTime,
    Finding,
    FindingKind,
    Side,
    compare,
    export_times,
    same_machine,
)
from onnx_parity.harness.gate.policy import Action, Policy
from onnx_parity.harness.record import RunInfo, Status
from onnx_parity.harness.store import RunStoreError, read_columns, read_end, read_info, read_records


class Verdict(msgspec.Struct, frozen=True):
    baseline: str
    run: str
    #: The policy's action for each kind of finding.
    actions: dict[FindingKind, Action]
    findings: list[Finding]
    #: Differences of the environments: `torch 2.12.1 → 2.13.0`.
    environment: list[str]
    #: For each status, the numbers of cells in the baseline and in the run.
    counts: dict[Status, tuple[int, int]]
    times_compared: bool

    @property
    def regressed(self) -> bool:
        return bool(self.with_action(Action.FAIL))

    def with_action(self, action: Action) -> list[Finding]:
        return [finding for finding in self.findings if self.actions[finding.kind] is action]


def judge(baseline: Path, run: Path, policy: Policy) -> Verdict:
    """Compare the run with the baseline."""
    before, now, exports = _sides(baseline, run)
    if before.info.seed != now.info.seed:
        raise RunStoreError(
            f"{run} cannot be compared with {baseline}: it was run with --seed {now.info.seed}, the baseline with "
            f"--seed {before.info.seed}, so that their cells had other inputs and weights. "
            f"Run it again with --seed {before.info.seed}."
        )
    old, new = Counter(before.counts), Counter(now.counts)
    return Verdict(
        baseline=before.info.id,
        run=now.info.id,
        actions={kind: getattr(policy.findings, kind.name.lower()) for kind in FindingKind},
        findings=list(compare(before, now, exports, policy)),
        environment=changes(before.info, now.info),
        counts={status: (old[status], new[status]) for status in Status if status in old or status in new},
        times_compared=same_machine(before.info, now.info),
    )


def changes(before: RunInfo, now: RunInfo) -> list[str]:
    """The differences of the environments of the two runs."""
    pairs = [(name, before.packages.get(name), now.packages.get(name)) for name in {**before.packages, **now.packages}]
    pairs += [("platform", before.platform, now.platform), ("cpus", str(before.cpus), str(now.cpus))]
    pairs += [("tier", before.tier, now.tier), ("commit", before.commit[:12], now.commit[:12])]
    pairs += [(name, before.missing.get(name), now.missing.get(name)) for name in {**before.missing, **now.missing}]
    return [f"{name} {old or 'none'} → {new or 'none'}" for name, old, new in pairs if old != new]


def _sides(baseline: Path, run: Path) -> tuple[Side, Side, Mapping[str, ExportTime]]:
    """What is compared of the two runs, and how long their exports took."""
    old, new = (read_info(baseline), read_end(baseline)), (read_info(run), read_end(run))
    before, now = read_columns(baseline), read_columns(run)
    if before is not None and now is not None:
        differing = find_differing(before, now)
        one, other = (
            Side(*about, part.records, part.counts, part.carried)
            for about, part in ((old, differing.before), (new, differing.now))
        )
        return one, other, differing.exports
    records = [{record.cell: record for record in read_records(each)} for each in (baseline, run)]
    one, other = (
        Side(*about, of, Counter(r.status for r in of.values()), sum(1 for r in of.values() if r.carried))
        for about, of in zip((old, new), records, strict=True)
    )
    return one, other, export_times(*records)
