"""Export times of programs of one to five operators, and of a first script: `python -m benchmarks.tiny_programs`."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from statistics import geometric_mean
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks.children import ROOT
from benchmarks.subjects import OPSET
from benchmarks.tiny_programs.programs import PROGRAMS, Scripted

#: How many times as long the TorchScript exporter has to take: warm exports as a geometric mean, and the first script.
TARGET, FIRST_SCRIPT_TARGET = 1.2, 1.0
#: Processes whose first script is timed, in turn. The quickest counts, because other work only adds time.
PROCESSES = 4

Axes = dict[str, dict[int, str]] | None
Export = Callable[[nn.Module, tuple[Tensor, ...], Axes], None]


def _here(model: nn.Module, args: tuple[Tensor, ...], axes: Axes) -> None:
    import onnx_parity

    names = [f"x{place}" for place in range(len(args))]
    onnx_parity.export(model, args, io.BytesIO(), input_names=names, dynamic_axes=axes, opset_version=OPSET)


def _torch_script(model: nn.Module, args: tuple[Tensor, ...], axes: Axes) -> None:
    names = [f"x{place}" for place in range(len(args))]
    file: Any = io.BytesIO()  # Which it takes, although its types do not say so.
    torch.onnx.export(model, args, file, input_names=names, dynamic_axes=axes, opset_version=OPSET, dynamo=False)


_EXPORTS: dict[str, Export] = {"exporter": _here, "torch_script": _torch_script}


def warm_seconds(rounds: int) -> dict[tuple[str, str], dict[str, float]]:
    """The processor seconds of the quickest of so many exports, by program and axes. The exporters take turns."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for name, (model, args) in PROGRAMS.items():
        for kind, axes in (("static", None), ("dynamic", {"x0": {0: "batch"}})):
            taken = found[name, kind] = dict.fromkeys(_EXPORTS, float("inf"))
            for _ in range(rounds):
                for exporter, export in _EXPORTS.items():
                    gc.collect()
                    start = time.process_time()
                    export(model.eval(), args, axes)
                    taken[exporter] = min(taken[exporter], time.process_time() - start)
    return found


def first_script(exporter: str) -> float:
    """The wall seconds of the first export of a script in this process, after the first of another program."""
    model, args = PROGRAMS["relu"]
    _EXPORTS[exporter](model, args, None)
    script = torch.jit.script(Scripted())
    start = time.perf_counter()
    _EXPORTS[exporter](script, (torch.randn(3, 4),), None)
    return time.perf_counter() - start


def _in_new_processes(exporter: str) -> float:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.tiny_programs", "--first-script-of", exporter]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    answer = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return float(answer.stdout.split()[-1])


def main(
    rounds: Annotated[int, typer.Option(help="Exports of each program by each exporter; the quickest counts.")] = 15,
    first_script_of: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Time exports of tiny programs, and the first of a script, beside those of torch.onnx's TorchScript exporter.

    Exits with 1 if a ratio is too small. Times of programs are processor times, without the first exports of a process.
    """
    warnings.simplefilter("ignore")
    if first_script_of:
        typer.echo(first_script(first_script_of))
        return
    torch.set_num_threads(1)
    warm_seconds(1)
    console = Console(width=110, highlight=False)
    found = warm_seconds(rounds)
    table = Table("program", "axes", "exporter", "torch_script", "times as long")
    ratios = {key: seconds["torch_script"] / seconds["exporter"] for key, seconds in found.items()}
    for (name, kind), seconds in found.items():
        times = (f"{1000 * each:.1f} ms" for each in seconds.values())
        table.add_row(name, kind, *times, f"{ratios[name, kind]:.2f}x")
    console.print(table)
    mean = geometric_mean(ratios.values())
    slower = [f"{name} ({kind})" for (name, kind), ratio in ratios.items() if ratio < 1]
    console.print(
        f"torch_script takes {mean:.2f}x as long; at least {TARGET}x; quicker in: {', '.join(slower) or 'none'}"
    )
    turns = [{exporter: _in_new_processes(exporter) for exporter in _EXPORTS} for _ in range(PROCESSES)]
    firsts = {exporter: min(turn[exporter] for turn in turns) for exporter in _EXPORTS}
    first = firsts["torch_script"] / firsts["exporter"]
    console.print(
        f"first script of a process: {1000 * firsts['exporter']:.0f} ms, torch_script {first:.2f}x as long; "
        f"at least {FIRST_SCRIPT_TARGET:g}x"
    )
    raise typer.Exit(0 if mean >= TARGET and not slower and first >= FIRST_SCRIPT_TARGET else 1)


if __name__ == "__main__":
    typer.run(main)
