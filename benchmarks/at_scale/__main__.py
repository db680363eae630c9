"""What commands that read runs take for a million cells: seconds, memory, and the size of the report.

python -m benchmarks.at_scale FOLDER
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from benchmarks.at_scale.made_run import make_run
from onnx_parity.harness.store import read_columns

_PARITY = (sys.executable, "-c", "from onnx_parity.harness.cli import app; app()")


class Target(NamedTuple):
    """A command, and what it may take: seconds, and MiB of memory."""

    name: str
    arguments: tuple[str, ...]
    seconds: float
    memory: int = 1024


class Taken(NamedTuple):
    seconds: float
    processor: float
    memory: int
    code: int


def targets(one: Path, other: Path, halves: tuple[Path, Path], root: Path) -> list[Target]:
    run = ("--run", str(one))
    return [
        Target("query by status", ("query", 'status == "failed" and opset < 11', *run, "--count"), 3),
        Target("query by headroom", ("query", 'metrics.headroom < 2 and status == "passed"', *run, "--count"), 3),
        Target("gate", ("gate", "--baseline", str(one), "--run", str(other)), 10),
        Target("merge", ("merge", *map(str, halves), "--into", str(root / "merged")), 30),
        Target("report", ("report", str(one), "--out", str(root / "report")), 90),
    ]


def measured(arguments: tuple[str, ...]) -> Taken:
    """Run a command in a process of its own. `ru_maxrss` is in KiB on Linux."""
    began = time.perf_counter()
    process = subprocess.Popen([*_PARITY, *arguments], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    return Taken(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss >> 10, os.waitstatus_to_exitcode(status))


def main(
    root: Annotated[Path, typer.Argument(help="A folder for the made runs; those that are there are used again.")],
    cells: Annotated[int, typer.Option(min=2, help="The number of cells.")] = 1_000_000,
) -> None:
    """Measure `parity query`, `gate`, `merge` and `report` over made runs, and print what they took and may take."""

    def made(name: str, count: int, variation: int = 0, first_case: int = 0) -> Path:
        run = root / f"{name}-{count}"
        if not (run / "end.json").exists():
            make_run(root, run.name, count, variation, first_case)
        read_columns(run)
        return run

    one, other = made("made", cells), made("other", cells, variation=1)
    halves = made("half", cells // 2), made("rest", cells // 2, first_case=cells)
    failed = False
    print(f"{'':20}{'seconds':>9}{'of':>5}{'processor':>11}{'MiB':>7}{'of':>6}")
    for target in targets(one, other, halves, root):
        taken = measured(target.arguments)
        ended_well = taken.code in (0, 1)
        failed |= not ended_well or taken.seconds > target.seconds or taken.memory > target.memory
        print(
            f"{target.name:20}{taken.seconds:9.1f}{target.seconds:5.0f}{taken.processor:11.1f}"
            f"{taken.memory:7}{target.memory:6}{'' if ended_well else f'  exit code {taken.code}'}"
        )
    files = [path for path in (root / "report").rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    print(f"the report has {size:.1f} MB, of 60, in {len(files)} files")
    raise typer.Exit(1 if failed or size > 60 else 0)


if __name__ == "__main__":
    typer.run(main)
