"""What first steps take, each in a process of its own: `python -m benchmarks.first_exports`.

    python -m benchmarks.first_exports --beside ../before      # with the times of another clone, in turn

All times are processor times, of the quickest of some processes, because other work only adds time.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

import onnx_parity
from benchmarks.children import ROOT
from benchmarks.first_exports.child import OPSET, TAKEN
from benchmarks.models import MODELS

#: What the time of a step is compared with: what torch itself takes, or an export from nothing.
FLOORS = {
    "import onnx_parity": "import torch",
    "import onnx_parity.exporter, after torch": "import torch",
    "first export": "torch's first recording",
    "first export, dynamic": "first export",
    "a capture at a second opset": "first export",
}
#: At most so many times as long as a static export may a dynamic one take, as a geometric mean over the models.
DYNAMIC_TARGET = 1.5
#: At most so many times as long as in the other clone may a step take: what measurements scatter is allowed.
BESIDE_TARGET = 1.1
#: Exports of each model, of which the quickest counts.
ROUNDS = 5
_CHILD = Path(__file__).with_name("child.py")


def taken(step: str, clone: Path) -> float:
    """The processor seconds of a step in a new process, with the project as it is in a clone."""
    environment = {**os.environ, "PYTHONPATH": str(clone), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, str(_CHILD), step]
    answer = subprocess.run(command, cwd=clone, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return float(answer.stdout.split()[-1])


def quickest(clones: list[Path], processes: int) -> dict[str, list[float]]:
    """The seconds of each step in each clone. The clones take turns."""
    found = {}
    for step in track(TAKEN, "steps", console=Console(stderr=True), transient=True):
        turns = [[taken(step, clone) for clone in clones] for _ in range(processes)]
        found[step] = [min(seconds) for seconds in zip(*turns, strict=True)]
    return found


def dynamic_ratio(name: str) -> float:
    """How many times as long the export of a model takes with a dynamic batch."""
    model, args = MODELS[name].make(batch=2)
    names = [f"x{place}" for place in range(len(args))]
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(ROUNDS):
        for is_dynamic, times in seconds.items():
            axes = {each: {0: "batch"} for each in names} if is_dynamic else None
            export = partial(onnx_parity.export, input_names=names, dynamic_axes=axes, opset_version=OPSET)
            start = time.process_time()
            export(model, args, io.BytesIO())
            times.append(time.process_time() - start)
    return min(seconds[True]) / min(seconds[False])


def main(
    processes: Annotated[int, typer.Option(help="New processes for each step; the quickest counts.")] = 4,
    beside: Annotated[
        Path | None, typer.Option(help="Another clone of the project, whose times stand beside.", exists=True)
    ] = None,
) -> None:
    """Time the import, first exports, an export at a second opset, and dynamic beside static exports.

    Exits with 1 if dynamic exports take too long beside static ones, or a step longer than in the other clone.
    """
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    console = Console(width=110, highlight=False)
    clones = [ROOT, *([beside.resolve()] if beside else [])]
    found = quickest(clones, processes)
    table = Table("step", "time", "beside", "its time", *(["the other clone", "ratio"] if beside else []))
    slower = []
    for step, (seconds, *others) in found.items():
        floor = FLOORS.get(step)
        row = [step, f"{1000 * seconds:.0f} ms", floor or "", f"{1000 * found[floor][0]:.0f} ms" if floor else ""]
        for other in others:
            row += [f"{1000 * other:.0f} ms", f"{seconds / other:.2f}"]
            if seconds > BESIDE_TARGET * other:
                slower.append(step)
        table.add_row(*row)
    console.print(table)
    if slower:
        console.print(f"longer than in the other clone: {', '.join(slower)}")
    names = [name for name, model in MODELS.items() if not model.large]
    ratios = {
        name: dynamic_ratio(name) for name in track(names, "models", console=Console(stderr=True), transient=True)
    }
    console.print("with a dynamic batch, static exports as 1:", ", ".join(f"{n} {r:.2f}" for n, r in ratios.items()))
    mean = geometric_mean(ratios.values())
    console.print(f"{mean:.2f} as a geometric mean, at most {DYNAMIC_TARGET}")
    raise typer.Exit(1 if slower or mean > DYNAMIC_TARGET else 0)


if __name__ == "__main__":
    typer.run(main)
