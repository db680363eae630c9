"""The cost of dynamic axes: `python -m benchmarks.sizes` exports with none, with the batch, and with three of them."""

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
#: The maximum ratio to the time without dynamic axes, for ResNet-50 with a dynamic batch.
BATCH_TARGET = 3.0
#: The maximum share of dynamo's time, for DenseNet-121 with three dynamic axes.
DYNAMO_TARGET = 0.5
#: The number of exports, of which the quickest counts, because other work on the machine only adds time.
ROUNDS = 5


def processor_seconds(export: Callable[[], object], rounds: int) -> float:
    """The processor time of the quickest of some rounds."""
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
    """Seconds that dynamo takes for its second export. The first one imports all that it needs."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        path = Path(folder) / "model.onnx"

        def export() -> None:
            torch.onnx.export(
                model, args, path, dynamo=True, dynamic_shapes=(dict(axes),), opset_version=OPSET, verbose=False
            )

        return processor_seconds(export, 2)


def main() -> None:
    """Measure the processor time of exports with dynamic axes. Exits with 1 if a target is missed."""
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
