"""The cost of dynamic sizes: `python -m benchmarks.sizes`. Exports without dynamic axes, with a dynamic batch, and with
three dynamic axes.

DenseNet-121 takes 0.13 s of processor time without dynamic axes, 0.27 s with a dynamic batch, and 0.74 s with dynamic
height and width as well; `torch.onnx.export(dynamo=True)` takes 35 s. The difference is sympy, in which every size is
an expression. By profile, a third of the recording goes to torch's `SymNode` building an expression for each sum and
product, a quarter to the result sizes and strides of convolutions, a sixth to those of concatenations, and a sixth to
the keys of the result cache.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import nn

import onnx_parity
from benchmarks.models import MODELS
from benchmarks.subjects import OPSET

AXES: dict[str, dict[int, str]] = {
    "none": {},
    "batch": {0: "batch"},
    "batch, height, width": {0: "batch", 2: "height", 3: "width"},
}
#: ResNet-50 with a varying batch, against none: at most this much.
BATCH_TARGET = 3.0
#: DenseNet-121 with three varying axes, against dynamo: at most this much.
DYNAMO_TARGET = 0.5
#: Exports of which the quickest counts: all else on the machine only adds.
ROUNDS = 5


def processor_seconds(export: Callable[[], object], rounds: int) -> float:
    """Of the quickest of some rounds."""
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        export()
        seconds.append(time.process_time() - start)
    return min(seconds)


def by_axes(model: nn.Module, args: tuple[torch.Tensor, ...]) -> dict[str, float]:
    """Seconds to export a model with each of `AXES`."""
    seconds = {}
    for label, axes in AXES.items():
        export = partial(
            onnx_parity.export, model, args, input_names=["x"], dynamic_axes={"x": axes}, opset_version=OPSET
        )
        seconds[label] = processor_seconds(export, ROUNDS)
    return seconds


def by_dynamo(model: nn.Module, args: tuple[torch.Tensor, ...], axes: dict[int, str]) -> float:
    """Seconds that dynamo takes for the second export, the first having imported all that it needs."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        path = Path(folder) / "model.onnx"

        def export() -> None:
            torch.onnx.export(
                model, args, path, dynamo=True, dynamic_shapes=(dict(axes),), opset_version=OPSET, verbose=False
            )

        return processor_seconds(export, 2)


def main() -> None:
    """Measure the processor time of exports whose sizes vary; exit with 1 where a target is missed."""
    warnings.simplefilter("ignore")
    table = Table("model", *AXES, "dynamo, the last")
    kept = []
    for name in ("resnet50", "densenet121"):
        model, args = MODELS[name].make(batch=2)
        seconds = by_axes(model, args)
        dynamo = None
        if name == "resnet50":
            kept.append(seconds["batch"] <= BATCH_TARGET * seconds["none"])
        else:
            dynamo = by_dynamo(model, args, AXES["batch, height, width"])
            kept.append(seconds["batch, height, width"] <= DYNAMO_TARGET * dynamo)
        table.add_row(name, *(f"{each:.2f} s" for each in seconds.values()), f"{dynamo:.1f} s" if dynamo else "")
    Console(width=120).print(table)
    raise typer.Exit(0 if all(kept) else 1)


if __name__ == "__main__":
    typer.run(main)
