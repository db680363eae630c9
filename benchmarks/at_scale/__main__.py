"""What commands that read runs take: seconds, memory, and the size of the reports of a million cells and of 57,000;
and what the report's reader waits for in Chromium.

python -m benchmarks.at_scale FOLDER
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from math import inf
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from benchmarks.at_scale.made_run import prepared_run
from benchmarks.options import choose
from onnx_parity.harness.columnar import FILE as COLUMNS

_PARITY = (sys.executable, "-c", "from onnx_parity.harness.cli import app; app()")


class Target(NamedTuple):
    """A command, and what it may take: seconds, MiB of memory, and seconds of processor time."""

    name: str
    #: Makes the runs that the command reads, and returns its arguments.
    arguments: Callable[[], tuple[str, ...]]
    seconds: float = inf
    memory: int = 1024
    processor: float = inf


class Size(NamedTuple):
    """What a report may take of a disk."""

    report: str
    megabytes: float
    files: float = inf


class Taken(NamedTuple):
    seconds: float
    processor: float
    memory: int
    code: int


#: The cells of the default tier.
_DEFAULT_TIER = 57_000
_SIZES = (Size("report", 60), Size("small-report", 10, 100))
#: What a reader may wait for, in milliseconds, and what may be read before the first page shows.
_BROWSER, _SHOWN, _READ, _ANSWERED = "browser", 1000, 2.0, 100


def targets(root: Path, cells: int) -> list[Target]:
    def made(name: str, count: int, variation: int = 0, first_case: int = 0, *, has_columns: bool = True) -> str:
        # In another process: a command's memory begins with that of the process that starts it.
        with ProcessPoolExecutor(1, get_context("spawn")) as others:
            run = root / f"{name}-{count}"
            return others.submit(prepared_run, run, count, variation, first_case, has_columns).result()

    def one() -> str:
        return made("made", cells)

    def halves() -> tuple[str, str]:
        return made("half", cells // 2), made("rest", cells // 2, first_case=cells)

    def first_read() -> tuple[str, ...]:
        run = made("made", cells, has_columns=False)
        (Path(run) / COLUMNS).unlink(missing_ok=True)
        return "query", "opset < 11", "--run", run, "--count"

    def query(condition: str) -> Callable[[], tuple[str, ...]]:
        return lambda: ("query", condition, "--run", one(), "--count")

    def report(run: Callable[[], str], folder: str) -> Callable[[], tuple[str, ...]]:
        return lambda: ("report", run(), "--out", str(root / folder))

    return [
        Target("first read", first_read),
        Target("query by status", query('status == "failed" and opset < 11'), 3),
        Target("query by headroom", query('metrics.headroom < 2 and status == "passed"'), 3),
        Target("report", report(one, "report"), 90),
        Target(
            f"report of {_DEFAULT_TIER:,}",
            report(lambda: made("small", _DEFAULT_TIER), "small-report"),
            seconds=6,
            processor=6,
        ),
        Target("gate", lambda: ("gate", "--baseline", one(), "--run", made("other", cells, variation=1)), 10),
        Target("merge", lambda: ("merge", *halves(), "--into", str(root / "merged")), 30),
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
    only: Annotated[list[str] | None, typer.Option(help="Measure only the command with this name.")] = None,
) -> None:
    """Measure `parity query`, `gate`, `merge` and `report` over made runs, and print what they took and may take.

    Processor time is hardly affected by other work on the machine, and seconds are. `--only browser` opens the reports
    that are there in Chromium.
    """
    every = targets(root, cells)
    chosen = choose("--only", only, [*(target.name for target in every), _BROWSER])
    failed = False
    print(f"{'':20}{'seconds':>9}{'of':>5}{'processor':>11}{'of':>5}{'MiB':>7}{'of':>6}")
    for target in every:
        if target.name not in chosen:
            continue
        taken = measured(target.arguments())
        ended_well = taken.code in (0, 1)
        failed |= not ended_well or taken.seconds > target.seconds or taken.memory > target.memory
        failed |= taken.processor > target.processor
        print(
            f"{target.name:20}{taken.seconds:9.1f}{_limit(target.seconds)}{taken.processor:11.1f}"
            f"{_limit(target.processor)}{taken.memory:7}{target.memory:6}"
            f"{'' if ended_well else f'  exit code {taken.code}'}",
            flush=True,
        )
    for size in _SIZES:
        if not (root / size.report).exists():
            continue
        files = [path for path in (root / size.report).rglob("*") if path.is_file()]
        megabytes = sum(path.stat().st_size for path in files) / 1e6
        failed |= megabytes > size.megabytes or len(files) > size.files
        print(f"{size.report}: {megabytes:.1f} MB, of {size.megabytes:.0f}, in {len(files)} files{_of_files(size)}")
        if _BROWSER in chosen:
            failed |= _is_slow(root / size.report)
    raise typer.Exit(1 if failed else 0)


def _is_slow(report: Path) -> bool:
    """Print what the reader of a report waits for."""
    from benchmarks.at_scale.in_browser import opened

    took = opened(report)
    slowest = took.slowest
    print(
        f"{report.name} in Chromium: the first page after {took.shown:.0f} ms, of {_SHOWN} ({took.processor:.0f} ms of "
        f"processor time), and {took.megabytes:.2f} MB, of {_READ:.0f}; filters and sorting in at most "
        f"{slowest.took:.0f} ms, of {_ANSWERED} ({slowest.processor:.0f} ms of processor time; {slowest.where})"
    )
    return took.shown > _SHOWN or took.megabytes > _READ or slowest.took > _ANSWERED


def _limit(number: float) -> str:
    return f"{number:5.0f}" if number < inf else f"{'':5}"


def _of_files(size: Size) -> str:
    return f", of {size.files:.0f}" if size.files < inf else ""


if __name__ == "__main__":
    typer.run(main)
