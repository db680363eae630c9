"""What one more runtime costs a run, and whether it changes a cell of the others, from a run without and one with it.

parity run op_cases --tier smoke --opsets 18 --devices cpu --runtimes openvino --runs runs/without
parity run op_cases --tier smoke --opsets 18 --devices cpu --runtimes openvino,tract --runs runs/with
python -m benchmarks.further_runtime runs/without/last runs/with/last
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import typer

from benchmarks.same_records import differences
from onnx_parity.harness.results.scoreboard import score
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import Records, read_records


class FurtherRuntime(msgspec.Struct, frozen=True):
    """The figures of the two runs."""

    #: The runtimes, with their transformations, that only the second run has: the seconds of their own stages.
    own_seconds: dict[str, float]
    #: The seconds of the stages that runtimes share, in the run without them and in the run with them.
    shared_seconds: tuple[float, float]
    #: Of those, the seconds in cells of runtimes that only the second run has. They do not depend on how fast the
    #: machine was in either run.
    repeated_seconds: float
    #: The cells that both runs have.
    cells: int
    #: The cells of which the runs have different records, each with the field that differs and both values.
    changed: dict[str, tuple[str, str, str]]


def figures(without: Records, with_it: Records) -> FurtherRuntime:
    before, after = score(without), score(with_it)
    one, other = ({record.cell: record for record in records} for records in (with_it, without))
    further = [name for name in after.subjects if name not in before.subjects]
    return FurtherRuntime(
        own_seconds={name: after.seconds[name] for name in further},
        shared_seconds=(before.shared_seconds, after.shared_seconds),
        repeated_seconds=sum(after.shared_by[name] for name in further),
        cells=len(one.keys() & other.keys()),
        changed=differences(one, other),
    )


def told(found: FurtherRuntime) -> list[str]:
    """One line for each figure, and one for each cell that changed."""
    names = " and ".join(found.own_seconds)
    without, with_it = found.shared_seconds
    lines = [
        f"{name}: {seconds:.1f} s to load and run models, and to compare" for name, seconds in found.own_seconds.items()
    ]
    lines.append(
        f"reference, export, check and transformations: {without:.1f} s without {names}, {with_it:.1f} s with {names}, "
        f"{found.repeated_seconds:.1f} s of them in its own cells"
    )
    lines.append(f"{found.cells} cells are in both runs, {len(found.changed)} of which differ")
    lines += [f"  {cell}: {field} is {one}, and was {other}" for cell, (field, one, other) in found.changed.items()]
    return lines


def main(without: Path, with_it: Path) -> None:
    """Print what the runtimes cost that only the second run has, and the cells that differ."""
    try:
        found = figures(read_records(without), read_records(with_it))
    except RunStoreError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    if not found.own_seconds:
        typer.echo(f"{with_it} has no runtime that {without} has not.", err=True)
        raise typer.Exit(2)
    for line in told(found):
        typer.echo(line)
    raise typer.Exit(1 if found.changed else 0)


if __name__ == "__main__":
    typer.run(main)
