"""Injects faults that the harness must survive or detect, many times, and counts how many were reported correctly.

python -m benchmarks.faults --repeats 100

The faults are those of `cells.py`: cells that end their process, in each stage; wrong outputs of a runtime; failures
with a known cause, which must be blamed on it; workers and whole runs that are killed with SIGKILL during a cell; and
those of `attacks.py` in runs, commands and files, and those that the tests in `tested.py` make.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.faults import attacks, cells
from benchmarks.faults.tally import Tally
from benchmarks.faults.tested import tested
from benchmarks.options import choose

#: Each with a folder of its own and the number of repeats. Those whose runs are copies of this process stand first,
#: while it has only one thread.
_FAULTS: dict[str, Callable[[Path, int], Iterator[Tally]]] = {
    each.__name__: each
    for each in (
        cells.isolation,
        cells.killed_runs,
        cells.killed_workers,
        attacks.killed_commands,
        attacks.full_disks,
        cells.oracle,
        cells.blame,
        attacks.damaged_bytes,
        attacks.no_baselines,
        attacks.no_files,
        attacks.half_written,
        attacks.large_records,
        attacks.hostile_files,
        attacks.caching_programs,
        tested,
    )
}


def main(
    repeats: Annotated[int, typer.Option(min=1)] = 100,
    only: Annotated[
        list[str] | None, typer.Option(help="Inject only the faults of these names, such as 'damaged_bytes'.")
    ] = None,
) -> None:
    """Print for every fault how often it was reported correctly. Fails if any was not."""
    # Modules that a dynamic export imports are imported before this process is forked.
    import torch.export._trace  # noqa: F401

    chosen = choose("--only", only, _FAULTS)
    began = time.monotonic()
    tallies: list[Tally] = []
    with tempfile.TemporaryDirectory(prefix="parity-faults-") as folder:
        for name in chosen:
            place = Path(folder) / name
            place.mkdir()
            for tally in _FAULTS[name](place, repeats):
                typer.echo(tally.line())
                for words in tally.wrong:
                    typer.echo(f"  {words}")
                tallies.append(tally)
    right = all(not tally.wrong for tally in tallies)
    verdict = "all reported" if right else "NOT all reported"
    typer.echo(f"{repeats} repeats of {len(tallies)} faults: {verdict}, in {time.monotonic() - began:.0f} s")
    raise typer.Exit(0 if right else 1)


if __name__ == "__main__":
    typer.run(main)
