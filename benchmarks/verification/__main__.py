"""The cost of `verify=True`: `python -m benchmarks.verification` compares it with runs of the program in float64."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import nn

import onnx_parity
from benchmarks.models import vision
from benchmarks.options import search
from benchmarks.subjects import OPSET

#: The most that a verification may take: this many runs of the program in float64, and loading the model.
RUNS_TARGET = 6.0
#: Programs whose run takes so many milliseconds at least are held to it. Of shorter ones, most of the time goes to what
#: does not depend on the run: the checker, copies of modules, and the comparison of each element.
LONG = 20.0
#: The number of measurements, of which the quickest counts, because other work on the machine only adds time.
ROUNDS = 3
#: A measurement takes at least so many seconds, since the processor time is counted in steps.
LEAST = 0.03


def _mlp() -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return layers, torch.rand(8, 64), {0: "batch"}


def _lstm() -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    return nn.LSTM(128, 256, num_layers=2), torch.rand(50, 4, 128), {0: "steps", 1: "batch"}


def _transformer_layer() -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    return layer, torch.rand(2, 64, 256), {0: "batch", 1: "tokens"}


def _gru() -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    return nn.GRU(64, 128, bidirectional=True), torch.rand(30, 4, 64), {0: "steps", 1: "batch"}


def _of_one_operator() -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    return nn.ELU(), torch.rand(8, 64), {0: "batch"}


def _norm() -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    return nn.LayerNorm(64), torch.rand(8, 64), {0: "batch"}


def _convolutions() -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    layers = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.Flatten())
    return layers, torch.rand(2, 3, 32, 32), {0: "batch"}


def _words() -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    layers = nn.Sequential(nn.Embedding(100, 64), nn.Linear(64, 64), nn.Softmax(-1))
    return layers, torch.randint(0, 100, (4, 20)), {0: "batch", 1: "words"}


def _transformer() -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    return nn.TransformerEncoder(layer, 4), torch.rand(2, 32, 128), {0: "batch", 1: "tokens"}


def _upsampling() -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Upsample(scale_factor=2, mode="bilinear"))
    return layers, torch.rand(1, 3, 32, 32), {0: "batch", 2: "height"}


def _vision(name: str) -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    model, (x,) = vision(name).make()
    return model, x, {0: "batch"}


_SUBJECTS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor, dict[int, str]]]] = {
    "one operator": _of_one_operator,
    "LayerNorm": _norm,
    "small MLP": _mlp,
    "two convolutions": _convolutions,
    "words": _words,
    "upsampling": _upsampling,
    "LSTM": _lstm,
    "GRU": _gru,
    "transformer layer": _transformer_layer,
    "transformer": _transformer,
    "resnet18": partial(_vision, "resnet18"),
    "densenet121": partial(_vision, "densenet121"),
}


def quickest(work: Callable[[], object]) -> float:
    """The processor time of the quickest of some calls, in milliseconds. Short ones are made several times."""
    times = 1
    while (spent := _spent(work, times)) < LEAST:
        times *= 2
    seconds = [spent]
    seconds += [_spent(work, times) for _ in range(ROUNDS - 1)]
    return 1000 * min(seconds) / times


def _spent(work: Callable[[], object], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - start


def main(only: Annotated[str, typer.Option(help="A regular expression for the names of the models.")] = "") -> None:
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
    long: list[float] = []
    more = 0.0
    for name in search("--only", only, _SUBJECTS):
        torch.manual_seed(0)
        model, x, dynamic = _SUBJECTS[name]()
        model.eval()
        wide, wide_x = copy.deepcopy(model).double(), x.double() if x.is_floating_point() else x
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
            if figures["run"] >= LONG:
                long.append(ratio)
            else:
                more = max(more, figures["verify"] - figures["load"] - RUNS_TARGET * figures["run"])
            table.add_row(
                name,
                ", ".join(axes.values()) or "none",
                *(f"{figures[each]:.1f}" for each in ("export", "verify", "run", "load")),
                f"{ratio:.1f}",
                f"{figures['verify'] / figures['export']:.1f}",
            )
    console = Console(width=120)
    console.print(table)
    within = sum(ratio <= RUNS_TARGET for ratio in long)
    console.print(
        f"{within} of {len(long)} whose run takes {LONG:.0f} ms or more are verified within {RUNS_TARGET:.0f} runs and "
        f"loading; the others take {more:.0f} ms more than that at most"
    )


if __name__ == "__main__":
    typer.run(main)
