"""`parity reduce`: the few operators of a failing cell that still fail, as a bundle with its source."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.commands.cell import AsJson, CellId, Seed, Window, localised, telling


def reduce(
    cell: CellId,
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("reduced"),
    seed: Seed = 0,
    window: Window = 32,
    as_json: AsJson = False,
) -> None:
    """Cut a failing cell's program down to the few operators that still fail, as a bundle with its source.

    Exit codes: 0 reduced; 1 no part of it fails by itself; 2 the cell passes, or there is none.

    Examples:

        parity reduce "resnet18-float32-opset9-cpu-trace-onnxruntime"

        parity reduce "resnet18-float32-opset9-cpu-trace-onnxruntime" --out /tmp/reduced && python /tmp/reduced/repro.py
    """
    from onnx_parity.harness.localisation.reduce import reduce as reduce_to
    from onnx_parity.harness.localisation.reduce import write_bundle

    with telling():
        suspect, found = localised(cell, seed, window)
        small = reduce_to(suspect, found)
        if small is None:
            typer.echo("\n".join(found.lines()))
            typer.echo("no part of it fails by itself")
            raise typer.Exit(1)
        write_bundle(suspect, small, out)
        operators = [str(node.op) for node in small.piece.nodes]
        if as_json:
            typer.echo(msgspec.json.encode({"folder": str(out), "operators": operators, "detail": small.detail}))
            return
        typer.echo(f"{cell}: {len(suspect.recording.nodes)} operators, reduced to {len(operators)}")
        typer.echo("\n".join(f"  {operator}" for operator in operators))
        typer.echo(f"{small.detail}\nsource: {out / 'program.py'}; it runs alone: python {out / 'repro.py'}")
