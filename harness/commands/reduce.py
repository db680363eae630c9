"""`parity reduce`: reduces a failing cell to the smallest part of its program that still fails, as a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnx_parity.harness.commands.cell import AsJson, CellId, Seed, Window, expected_errors_in_one_line, localise_cell
from onnx_parity.harness.commands.defaults import Places
from onnx_parity.harness.commands.terminal import print_json, print_text


def reduce(
    cell: CellId,
    seed: Seed,
    paths: Places = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder to write the bundle to. Default: a folder in reduced/, named after the cell."),
    ] = None,
    window: Window = 32,
    as_json: AsJson = False,
) -> None:
    """Reduce a failing cell's program to the few operators that still fail, and write them as a bundle.

    The bundle holds the reduced program's source, its model and inputs, and a script that reproduces the failure.

    Exit codes: 0 if the program was reduced; 1 if no part of it fails by itself; 2 if the cell passes or there is no
    such cell.

    Examples:

        parity reduce "resnet18-float32-opset9-cpu-trace-onnxruntime"

        parity reduce "resnet18-float32-opset9-cpu-trace-onnxruntime" --out /tmp/reduced && python /tmp/reduced/repro.py
    """
    from onnx_parity.harness.judging.bundle import slug
    from onnx_parity.harness.localisation.reduce import reduce as reduce_to
    from onnx_parity.harness.localisation.reduce import write_reduced

    with expected_errors_in_one_line():
        suspect, found = localise_cell(cell, paths, seed, window)
        small = reduce_to(suspect, found)
        if small is None:
            print_text("\n".join(found.lines()))
            print_text("The program cannot be reduced: no part of it fails by itself.")
            raise typer.Exit(1)
        folder = out or Path("reduced") / slug(suspect.cell.id)
        write_reduced(suspect, small, folder)
        operators = [str(node.op) for node in small.piece.nodes]
        if as_json:
            print_json({"folder": str(folder), "operators": operators, "detail": small.detail})
            return
        print_text(f"{cell}: {len(suspect.recording.nodes)} operators, reduced to {len(operators)}")
        print_text("\n".join(f"  {operator}" for operator in operators))
        print_text(f"{small.detail}\nsource: {folder / 'program.py'}\nto reproduce: python {folder / 'repro.py'}")
