"""Merging runs: the shards of one run, or runs of different parts of the matrix."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from onnx_parity.harness.columnar import FILE, write_merged
from onnx_parity.harness.record import RunEnd, RunInfo
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import (
    create_run,
    describe_lines,
    read_columns,
    read_end,
    read_info,
    read_records,
    record_files,
    write_end,
)


def merge(runs: Sequence[Path], root: Path, *, partial: bool = False) -> Path:
    """Create a run under `root` with the records of all `runs`, which are not changed."""
    infos = [read_info(run) for run in runs]
    ids = [info.id for info in infos]
    for number, run in enumerate(runs):
        if ids[number] in ids[:number]:
            raise RunStoreError(
                f"{run} and {runs[ids.index(ids[number])]} cannot be merged: they are the same run. Name each run once."
            )
    for run, info in zip(runs[1:], infos[1:], strict=True):
        for what, first, other in (("seed", infos[0].seed, info.seed), ("packages", infos[0].packages, info.packages)):
            if first != other:
                raise RunStoreError(
                    f"{runs[0]} and {run} cannot be merged: they differ in their {what}, {first} and {other}. "
                    "Compare them with `parity gate` instead."
                )
    missing = "" if partial else _missing_shards(infos)
    if missing:
        raise RunStoreError(f"The runs cannot be merged: {missing}. Run it, name its folder too, or pass --partial.")
    merged = msgspec.structs.replace(
        infos[0],
        id=f"{infos[0].id}-merged-{os.getpid()}",
        started=min(info.started for info in infos),
        shard="",
        merged=tuple(info.id for info in infos),
    )
    # `last` is a link, which leads to the merged run as soon as that is created.
    sources = [source.resolve() for source in runs]
    run = create_run(root, merged)
    for source, info in zip(sources, infos, strict=True):
        for path in record_files(source):
            # The modification time is kept: of two records of a cell without start times, the later file's is used.
            shutil.copy2(path, run / path.name.replace("records-", f"records-{info.id}-", 1))
    rows = _merge_columns(sources, run)
    ends = [end for source in sources if (end := read_end(source)) is not None]
    if len(ends) == len(sources):
        whole = not partial and all(end.whole for end in ends)
        write_end(
            run, RunEnd(max(end.ended for end in ends), whole, cells=len(read_records(run)) if rows is None else rows)
        )
    return run


def _merge_columns(runs: Sequence[Path], merged: Path) -> int | None:
    """Put together the columns that the runs have, and return the number of rows. Where that cannot be done, return
    None: the merged run's columns are made from its lines.

    It cannot if a run has none, or if a cell was in several runs: the lines decide which of its records counts.
    """
    parts = [read_columns(run) for run in runs]
    columns = [part for part in parts if part is not None]
    if len(columns) == len(runs) and write_merged(merged / FILE, columns, describe_lines(merged)):
        return sum(map(len, columns))
    return None


def _missing_shards(infos: Sequence[RunInfo]) -> str:
    parts = {info.shard for info in infos if info.shard}
    for of in sorted({part.partition("/")[2] for part in parts}, key=int):
        lacking = [str(number) for number in range(1, int(of) + 1) if f"{number}/{of}" not in parts]
        if lacking:
            return f"shard {', '.join(lacking)} of {of} is missing"
    return ""
