"""How long users wait for a command that runs no cells, and for their first cell: `python -m benchmarks.waits`.

Commands are run in a copy of this project's declarations, and `parity init` in an empty folder. The quickest of some
rounds counts, because other work only adds time: on a machine that does other things, compare processor times.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.children import ROOT

_PARITY = ("-m", "onnx_parity")
_FILE = "op_cases/activation.py"
_COPIED = ("op_cases", "model_zoo", "pyproject.toml")


def _edit(project: Path) -> None:
    with (project / _FILE).open("a") as file:
        file.write(f"# {time.time_ns()}\n")


def _forget(project: Path) -> None:
    shutil.rmtree(project / "runs", ignore_errors=True)


def _nothing(project: Path) -> None:
    pass


#: What is waited for: the most seconds that it may take, what is done before, and the arguments of Python, in turn.
_WAITS: dict[str, tuple[float | None, Callable[[Path], None], Sequence[Sequence[str]]]] = {
    "import torch": (None, _nothing, [("-c", "import torch")]),
    "parity --help": (0.4, _nothing, [(*_PARITY, "--help")]),
    "parity list, the first time": (None, _forget, [(*_PARITY, "list")]),
    "parity list, nothing changed": (2.0, _nothing, [(*_PARITY, "list")]),
    "parity list, a file was edited": (2.0, _edit, [(*_PARITY, "list")]),
    f"pytest --collect-only {_FILE}": (1.5, _nothing, [("-m", "pytest", "--collect-only", "-q", _FILE)]),
}
_FIRST_CELL = "parity init, then its first cell"
_FIRST_CELL_MOST = 15.0


def measure(project: Path, steps: Sequence[Sequence[str]]) -> tuple[float, float]:
    """The seconds that processes take one after the other, and those of the processor."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    for step in steps:
        ran = subprocess.run(
            [sys.executable, *step],
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode:
            raise typer.BadParameter(f"python {' '.join(step)} ended with {ran.returncode}: {ran.stderr or ran.stdout}")
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(rounds: Annotated[int, typer.Option(min=1, help="How often each is measured.")] = 3) -> None:
    """Measure what users wait for, and end with 1 if it takes longer than it may."""
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as name:
        project = Path(name) / "project"
        project.mkdir()
        for each in _COPIED:
            (shutil.copytree if (ROOT / each).is_dir() else shutil.copy)(ROOT / each, project / each)
        for number in range(rounds):
            for wait, (_, prepare, steps) in _WAITS.items():
                prepare(project)
                found.setdefault(wait, []).append(measure(project, steps))
            fresh = Path(name) / f"fresh{number}"
            fresh.mkdir()
            steps = [(*_PARITY, "init"), (*_PARITY, "run", "-k", "softplus", "--opsets", "18", "--devices", "cpu")]
            found.setdefault(_FIRST_CELL, []).append(measure(fresh, steps))
    most = {**{wait: limit for wait, (limit, _, _) in _WAITS.items()}, _FIRST_CELL: _FIRST_CELL_MOST}
    load = f"{os.getloadavg()[0]:.1f} processes on {os.cpu_count()} processors ran meanwhile"
    table = Table("what is waited for", "seconds", "of the processor", "may take", "", title="Waits", caption=load)
    kept = True
    for wait, taken in found.items():
        limit, (seconds, cpu) = most[wait], min(taken)
        holds = limit is None or seconds <= limit
        kept &= holds
        table.add_row(wait, f"{seconds:.2f}", f"{cpu:.2f}", f"{limit or ''}", "" if holds else "too long")
    Console().print(table)
    raise typer.Exit(0 if kept else 1)


if __name__ == "__main__":
    typer.run(main)
