"""The command line: `python -m benchmarks`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from benchmarks.measure import measure
from benchmarks.models import MODELS
from benchmarks.options import choose
from benchmarks.table import render
from benchmarks.targets import judge

app = typer.Typer(add_completion=False)

SMALL = [name for name, model in MODELS.items() if not model.large]


@app.command()
def main(
    models: Annotated[str, typer.Option(help="Comma-separated; all of them if not given.")] = ",".join(SMALL),
    json: Annotated[Path | None, typer.Option(help="Also write every measured number to this file.")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="The number of processes for each exporter and model.")] = 3,
    matrix: Annotated[bool, typer.Option(help="Also time the operators at every opset, and the default tier.")] = True,
) -> None:
    """Measure the exporter, torch.onnx's two and the floor, and print the ratios and the targets."""
    names = choose("--models", models.split(","), SMALL)
    if json is not None and (json.is_dir() or not json.absolute().parent.is_dir()):
        raise typer.BadParameter(f"{json} cannot be written: name a file in a folder that exists", param_hint="--json")
    # If the output is not a terminal, the tables are as wide as they need to be.
    console = Console(width=None if sys.stdout.isatty() else 140)
    progress = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        results = measure(
            names, repeat, Path(folder), lambda what: progress.print(what, style="dim", highlight=False), matrix=matrix
        )
    if json is not None:
        json.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    console.print(render(results, judge(results)))


if __name__ == "__main__":
    app()
