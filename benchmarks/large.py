"""Exports a model of 3 GB with every exporter: `python -m benchmarks.large`. Needs 10 GB of memory and of disk."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.children import run
from benchmarks.jobs import Failure, Memory, MemoryJob
from benchmarks.models import MODELS
from benchmarks.options import choose
from benchmarks.subjects import EXPORTERS, Contender, Weights

#: The maximum memory in addition to the model, as a share of its weights.
TARGET = 0.1
#: Above 2 GB every exporter writes weights to separate files. torch.onnx's TorchScript exporter has no option for it.
LAYOUT = {Contender.OURS: Weights.EXTERNAL, Contender.TORCHSCRIPT: Weights.INLINE, Contender.DYNAMO: Weights.EXTERNAL}
TIMEOUT_SECONDS = 1800.0


def measure(model: str, folder: Path) -> dict[Contender, Memory | Failure]:
    """One export by each exporter, in a process and a folder of its own. The folder is removed before the next."""
    outcomes: dict[Contender, Memory | Failure] = {}
    for subject in EXPORTERS:
        place = folder / subject.name.lower()
        place.mkdir()
        job = MemoryJob(subject=subject, model=model, path=str(place / "model.onnx"), weights=LAYOUT[subject])
        outcome = run(job, place, TIMEOUT_SECONDS)
        assert isinstance(outcome, Memory | Failure)
        outcomes[subject] = outcome
        shutil.rmtree(place)
    return outcomes


def render(model: str, outcomes: dict[Contender, Memory | Failure]) -> Table:
    table = Table(title=f"{model}: one export of a model that is too large for protobuf")
    for heading in ("exporter", "seconds", "memory beyond the model", "share of the weights"):
        table.add_column(heading, justify="left" if heading == "exporter" else "right")
    for subject, outcome in outcomes.items():
        if isinstance(outcome, Failure):
            table.add_row(subject.value, "-", outcome.reason, "-")
        else:
            share = outcome.extra / outcome.weights
            table.add_row(subject.value, f"{outcome.seconds:.1f}", f"{outcome.extra / 1e6:,.0f} MB", f"{share:.3f}")
    return table


def main(model: Annotated[str, typer.Option(help="One of the large models.")] = "wide") -> None:
    """Measure time and peak memory of one export of a large model, by this exporter and torch.onnx's two."""
    large = [name for name, each in MODELS.items() if each.large]
    (model,) = choose("--model", [model], large)
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        outcomes = measure(model, Path(folder))
    Console(width=140).print(render(model, outcomes))
    ours = outcomes[Contender.OURS]
    if isinstance(ours, Failure) or ours.extra >= TARGET * ours.weights:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
