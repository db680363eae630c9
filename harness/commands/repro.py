"""`parity repro`: runs one cell and writes a bundle that reproduces it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.cell import AsJson, CellId, Seed, expected_errors_in_one_line, find
from onnx_parity.harness.commands.defaults import Places
from onnx_parity.harness.commands.terminal import print_json, print_text

if TYPE_CHECKING:
    from onnx_parity.harness.judging.outcome import Outcome
    from onnx_parity.harness.matrix.cells import Cell
    from onnx_parity.harness.record import Record


def repro(
    cell: CellId,
    seed: Seed,
    paths: Places = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder to write the bundle to. Default: a folder in repro/, named after the cell."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run one cell and write a bundle that reproduces it, whether it passes or fails.

    The bundle holds the model, its inputs, PyTorch's outputs, and a script that runs them without this project.

    Exit codes: 0 if the cell passes; 1 if it does not; 2 if there is no such cell.

    Examples:

        parity repro "elu[alpha=0.5]-float32-opset9-cpu-trace-onnxruntime"

        parity repro "vgg16-float32-opset9-cpu-trace-onnxruntime" --out /tmp/vgg && python /tmp/vgg/repro.py
    """
    from onnx_parity.harness.judging.bundle import slug

    with expected_errors_in_one_line():
        suspect = find(cell, paths)
        folder = out or Path("repro") / slug(suspect.id)
        record, details = _run_and_bundle(suspect, seed, folder)
        if as_json:
            print_json({"folder": str(folder), "record": record})
        else:
            lines = [f"{suspect.id}: {record.status} at {record.stage}", *(f"  {line}" for line in details)]
            print_text("\n".join([*lines, f"bundle: {folder}", f"to reproduce: python {folder / 'repro.py'}"]))
        raise typer.Exit(0 if record.status == "passed" else 1)


def _run_and_bundle(cell: Cell, seed: int, folder: Path) -> tuple[Record, list[str]]:
    """Run a cell, and write its bundle before the temporary files of its model are removed."""
    from onnx_parity.exporter.verification.bundle import write_bundle
    from onnx_parity.harness.axes import Tier
    from onnx_parity.harness.judging.bundle import bundle_of
    from onnx_parity.harness.judging.outcome import blank_record
    from onnx_parity.harness.results.environment import describe_run
    from onnx_parity.harness.running.stages import Bench

    declaration = cell.case.declaration
    project = defaults.project()
    file = os.path.relpath(declaration.file, project.root)
    options = () if seed == defaults.seed() else (f"--parity-seed={seed}",)
    blank = blank_record(cell, file, f"{file}::{cell.case.name}::{cell.id}", worker="repro", options=options)
    run = describe_run(seed=seed, tier=Tier.FULL, argv=["repro", cell.id], project=project.root)

    def keep(outcome: Outcome) -> None:
        write_bundle(bundle_of(outcome, outcome.onto(blank), run), folder)

    outcome = Bench(seed).run(cell, ended=keep)
    return outcome.onto(blank), outcome.details
