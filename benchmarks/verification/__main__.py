"""The cost of `verify=True`: `python -m benchmarks.verification` compares it with runs of the program in float64."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable
from functools import partial

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import nn

import onnx_parity
from benchmarks.models import vision
from benchmarks.subjects import OPSET

#: The most that a verification may take: this many runs of the program in float64, and loading the model.
RUNS_TARGET = 6.0
#: The number of measurements, of which the quickest counts, because other work on the machine only adds time.
ROUNDS = 3


def _mlp() -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return layers, torch.rand(8, 64), {0: "batch"}


def _lstm() -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    return nn.LSTM(128, 256, num_layers=2), torch.rand(50, 4, 128), {0: "steps", 1: "batch"}


def _transformer_layer() -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    return layer, torch.rand(2, 64, 256), {0: "batch", 1: "tokens"}


def _resnet18() -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    model, (x,) = vision("resnet18").make()
    return model, x, {0: "batch"}


_SUBJECTS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor, dict[int, str]]]] = {
    "small MLP": _mlp,
    "LSTM": _lstm,
    "transformer layer": _transformer_layer,
    "resnet18": _resnet18,
}


def quickest(work: Callable[[], object]) -> float:
    """The processor time of the quickest of some calls, in milliseconds."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return 1000 * min(seconds)


def main() -> None:
    """Measure the processor time of exports, of verifications, of runs in float64, and of loading the model."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # The processor time of threads that wait depends on what else the machine does.
    columns = (
        "model",
        "axes",
        "export",
        "verify",
        "run in float64",
        "load",
        "(verify - load) / run",
        "verify / export",
    )
    table = Table(*columns, title="milliseconds of processor time", title_justify="left")
    for name, make in _SUBJECTS.items():
        torch.manual_seed(0)
        model, x, dynamic = make()
        model.eval()
        wide, wide_x = copy.deepcopy(model).double(), x.double()
        for axes in ({}, dynamic):
            export = partial(
                onnx_parity.export, model, (x,), input_names=["x"], dynamic_axes={"x": axes}, opset_version=OPSET
            )
            program = export()
            program.verify()  # The first one imports what it needs.

            def verify(program: onnx_parity.ONNXProgram = program) -> None:
                program.release()
                program.verify()

            def load(program: onnx_parity.ONNXProgram = program) -> None:
                program.release()
                program.runtime_session()

            def run(wide: nn.Module = wide, x: torch.Tensor = wide_x) -> None:
                with torch.no_grad():
                    wide(x)

            works: dict[str, Callable[[], object]] = {"export": export, "verify": verify, "run": run, "load": load}
            figures = {name: quickest(work) for name, work in works.items()}
            ratio = (figures["verify"] - figures["load"]) / figures["run"]
            table.add_row(
                name,
                ", ".join(axes.values()) or "none",
                *(f"{figures[each]:.1f}" for each in ("export", "verify", "run", "load")),
                f"{ratio:.1f}",
                f"{figures['verify'] / figures['export']:.1f}",
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    typer.run(main)
