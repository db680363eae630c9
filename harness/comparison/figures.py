"""Summaries of a comparison: counts by verdict, targets and whether they are met, misses grouped by cause."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from onnx_parity.harness.axes import PARITY, TORCH_SCRIPT
from onnx_parity.harness.comparison.outcome import Comparison, Outcome, Point, Verdict

#: The opset at which the peers are compared.
PEER_OPSET = 18

_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Wanted:
    """For each opset, the number of samples that this project's exporter must get right, of so many."""

    counted: int
    at_least: Mapping[int, int]


#: Of four samples of each of the declared entries on torch 2.13. On them `dynamo=True` was right on 505, `dynamo=False`
#: on 450, and at least one of the two on 512.
OF_DECLARED = Wanted(549, {7: 400, 9: 480, 11: 520, 13: 535, 18: 540, 26: 538})
#: Of four samples of each entry of the operator database, in its first dtype. On them `dynamo=True` was right on 1,574,
#: `dynamo=False` on 1,000.
OF_DATABASE = Wanted(2189, {7: 2080, 9: 2120, 11: 2120, 13: 2160, 18: 2160, 23: 2160, 26: 2160})


@dataclass(frozen=True, slots=True)
class Row:
    """The results of an exporter at an opset."""

    exporter: str
    opset: int
    counts: Mapping[Verdict, int]
    #: Milliseconds of the median export, capture included; None if nothing was exported.
    milliseconds: float | None


@dataclass(frozen=True, slots=True)
class Target:
    """A target, the figure that was reached, and whether that is enough."""

    wanted: str
    found: str
    met: bool


@dataclass(frozen=True, slots=True)
class MissGroup:
    """Samples that an exporter does not get right, with the same cause."""

    verdict: Verdict
    #: One of the group's reasons, which differ at most in numbers.
    reason: str
    points: tuple[Point, ...]
    opsets: tuple[int, ...]


def rows(comparison: Comparison) -> list[Row]:
    return [
        Row(exporter, opset, Counter(each.verdict for each in found.values()), _milliseconds(found))
        for exporter in comparison.exporters
        for opset in comparison.opsets(exporter)
        if (found := comparison.of(exporter, opset))
    ]


def targets(comparison: Comparison) -> list[Target]:
    """The targets of this project's exporter for which the comparison has figures."""
    usable = len(comparison.points)
    wanted = OF_DATABASE if comparison.database else OF_DECLARED
    found: list[Target] = []
    for opset in comparison.opsets(PARITY):
        right = len(_right(comparison, PARITY, opset))
        if comparison.whole and opset in wanted.at_least:
            # Another version of torch has other samples, so the target is scaled to their number.
            least = math.ceil(usable * wanted.at_least[opset] / wanted.counted)
            asked = f"right at opset {opset}: at least {least} of {usable}"
            found.append(Target(f"{asked} ({wanted.at_least[opset]} of {wanted.counted})", str(right), right >= least))
    ours = [each for each in comparison.outcomes if each.exporter == PARITY]
    for verdict in (Verdict.WRONG, Verdict.BROKEN, Verdict.CRASHED):
        number = sum(each.verdict is verdict for each in ours)
        found.append(Target(f"{verdict} at any opset: none", str(number), number == 0))
    if _peers(comparison):
        either, missed = right_with_a_peer(comparison), missed_though_a_peer_is_right(comparison)
        wanted_text = f"right at opset {PEER_OPSET} wherever a peer is: {len(either)}"
        found.append(Target(wanted_text, str(len(either) - len(missed)), not missed))
    ours_ms, theirs_ms = (_milliseconds(comparison.of(each, PEER_OPSET)) for each in (PARITY, TORCH_SCRIPT))
    if ours_ms is not None and theirs_ms is not None:
        wanted_text = f"median export at opset {PEER_OPSET} no longer than {TORCH_SCRIPT}'s {theirs_ms:.1f} ms"
        found.append(Target(wanted_text, f"{ours_ms:.1f} ms", ours_ms <= theirs_ms))
    return found


def right_with_a_peer(comparison: Comparison) -> set[Point]:
    """The samples that some peer gets right."""
    return set().union(*(_right(comparison, peer, PEER_OPSET) for peer in _peers(comparison)))


def missed_though_a_peer_is_right(comparison: Comparison) -> list[Point]:
    if PARITY not in comparison.exporters:
        return []
    return sorted(right_with_a_peer(comparison) - _right(comparison, PARITY, PEER_OPSET))


def misses(comparison: Comparison, exporter: str) -> list[MissGroup]:
    """The samples that an exporter does not get right, grouped by cause, the most frequent first."""
    groups: dict[tuple[Verdict, str], list[Outcome]] = {}
    for each in comparison.outcomes:
        if each.exporter == exporter and each.verdict is not Verdict.RIGHT:
            # Wrong values all differ, so they are grouped by entry.
            cause = each.point.entry if each.verdict is Verdict.WRONG else _DIGITS.sub("", each.reason)
            groups.setdefault((each.verdict, cause), []).append(each)
    found = [
        MissGroup(
            verdict,
            group[0].reason,
            tuple(sorted({each.point for each in group})),
            tuple(sorted({each.opset for each in group})),
        )
        for (verdict, _), group in groups.items()
    ]
    return sorted(found, key=lambda group: (-len(group.points) * len(group.opsets), group.reason))


def spelled_points(points: tuple[Point, ...]) -> str:
    """`clamp[0,2,4], pow[3]`."""
    positions: dict[str, list[int]] = {}
    for point in points:
        positions.setdefault(point.entry, []).append(point.position)
    return ", ".join(f"{entry}[{','.join(map(str, where))}]" for entry, where in positions.items())


def _peers(comparison: Comparison) -> list[str]:
    others = [exporter for exporter in comparison.exporters if exporter != PARITY]
    return [exporter for exporter in others if PEER_OPSET in comparison.opsets(exporter)]


def _right(comparison: Comparison, exporter: str, opset: int) -> set[Point]:
    return {point for point, each in comparison.of(exporter, opset).items() if each.verdict is Verdict.RIGHT}


def _milliseconds(found: Mapping[Point, Outcome]) -> float | None:
    seconds = [each.seconds for each in found.values() if each.seconds is not None]
    return 1e3 * median(seconds) if seconds else None
