"""Shards: the part of a run, out of N, to which a cell belongs.

The cells of a case at one dtype stay together, because they share work. Without recorded durations a hash of their name
decides, so that a case is always in the same shard. With durations, the longest groups are assigned first, each to the
emptiest shard. Cases without a duration are distributed by their hash, so that a new case does not move others.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from onnx_parity.harness.axes import AxisError
from onnx_parity.harness.cases.seeds import stable_seed
from onnx_parity.harness.record import Record
from onnx_parity.harness.store import read_info, read_records

_SHARD = re.compile(r"(\d+)/(\d+)")


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` of `of`, counted from 1."""

    number: int
    of: int
    #: The shards of groups whose durations are known.
    balanced: dict[str, int] = field(default_factory=dict)

    def holds(self, group: str) -> bool:
        chosen = self.balanced.get(group)
        return (chosen if chosen is not None else 1 + stable_seed(0, "shard", group) % self.of) == self.number


def parse_shard(text: str, durations: Path | None) -> Shard:
    """`2/8`, and the run whose durations balance the shards."""
    found = _SHARD.fullmatch(text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise AxisError(f"--shard {text}: write the number and the count, such as 2/8 for the second of eight.")
    number, of = int(found[1]), int(found[2])
    if durations is None:
        return Shard(number, of)
    read_info(
        durations
    )  # Raises an error if there is no run: without it this machine would divide the cells differently from others.
    return Shard(number, of, balance(read_records(durations), of))


def group_of(case: str, dtype: str) -> str:
    return f"{case}-{dtype}"


def balance(records: Iterable[Record], of: int) -> dict[str, int]:
    """Each group with its shard: the longest first, each to the shard with the shortest time so far."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for record in records:
        seconds[group_of(record.case, record.dtype)] += record.elapsed or sum(record.seconds.values())
    loads = dict.fromkeys(range(1, of + 1), 0.0)
    shards = {}
    for group, duration in sorted(seconds.items(), key=lambda item: (-item[1], item[0])):
        emptiest = min(loads, key=lambda shard: (loads[shard], shard))
        loads[emptiest] += duration
        shards[group] = emptiest
    return shards
