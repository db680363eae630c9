"""Whether a run has all cells that it was started for. Its figures do not cover those that it lacks."""

from __future__ import annotations

import shlex
from pathlib import Path

from onnx_parity.harness.record import RunEnd, RunInfo

#: What comes before the command that completes a run, at the end of a sentence about it.
RESUME = " To run the missing cells: "
#: Runs of earlier schema versions have no record of their end.
_SINCE_VERSION = 2


def is_unfinished(info: RunInfo, end: RunEnd | None) -> bool:
    """Whether the run was stopped or killed before its end, or is still running."""
    return info.schema_version >= _SINCE_VERSION and (end is None or not end.whole)


def shortcomings(run: Path, info: RunInfo, end: RunEnd | None, damage: str = "") -> list[str]:
    """A sentence for each reason why the run lacks cells; none if it has all. `damage` is that of its records."""
    found = []
    if is_unfinished(info, end):
        found.append(f"This run is unfinished: {why_unfinished(info, end)}.{_remedy(run, info)}")
    if info.shard:
        found.append(f"This run is shard {info.shard}: `parity merge` puts it and the other shards together.")
    if damage:
        found.append(damage)
    return found


def in_a_word(info: RunInfo, end: RunEnd | None, damage: str = "") -> str:
    """The first of the reasons why the run lacks cells, as a badge has room for it; empty if it has all."""
    if is_unfinished(info, end):
        return "unfinished" if end is None or info.merged else "stopped"
    if info.shard:
        return f"shard {info.shard}"
    return "records lost" if damage else ""


def why_unfinished(info: RunInfo, end: RunEnd | None) -> str:
    """Why the run does not have all its cells, in a clause about it."""
    if end is None:
        return "it was killed, or is still running"
    if info.merged:
        return "some of the runs that it was merged from are missing or unfinished"
    lacking = f"; {end.lacking} of its cells were not run" if end.lacking else ""
    return (end.why or "it was stopped before its end") + lacking


def _remedy(run: Path, info: RunInfo) -> str:
    return "" if info.merged else f"{RESUME}parity run --resume {shlex.quote(str(run))}"
