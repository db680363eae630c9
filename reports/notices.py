"""What a reader must know of a run before anything else: that it is damaged, was stopped, or is only a part."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_parity.harness.record import RunEnd, RunInfo
from onnx_parity.reports.wording import plural


def notices(info: RunInfo, end: RunEnd | None, damage: str, carried: int) -> Iterator[str]:
    """`damage`: what of the run cannot be read. `carried`: how many of its cells were taken from an earlier run."""
    if damage:
        yield damage
    # Runs of schema version 1 have no record of their end.
    if end is None and info.schema_version > 1:
        yield (
            "This run has not ended: it is going on, or it was killed. The pages show the cells that have been "
            f"recorded. To run those that are missing: parity run --resume runs/{info.id}"
        )
    elif end is not None and not end.whole:
        yield (
            "This run was stopped before its end. The pages show the cells that were recorded. To run those that are "
            f"missing: parity run --resume runs/{info.id}"
        )
    if info.shard:
        yield (
            f"This is shard {info.shard} of a run: the other shards have the other cells. `parity merge` puts them "
            "together."
        )
    if carried:
        yield f"{plural(carried, 'cell')} did not run again: nothing on which a result depends has changed since."
