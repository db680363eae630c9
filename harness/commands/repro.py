"""`parity repro`: one cell run, and its bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from onnx_parity.harness.commands.cell import AsJson, CellId, Seed, telling
from onnx_parity.harness.commands.cell import found as find

if TYPE_CHECKING:
    from onnx_parity.harness.judging.outcome import Outcome
    from onnx_parity.harness.matrix.cells import Cell
    from onnx_parity.harness.record import Record


def repro(
    cell: CellId,
    out: Annotated[Path | None, typer.Option(help="The folder to write to. Default: under repro/.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Run one cell and write its bundle, failing or not: model, inputs, torch's outputs, a script that runs alone.

    Exit codes: 0 it passes; 1 it does not; 2 there is no such cell.

    Examples:

        parity repro "elu[alpha=0.5]-float32-opset9-cpu-trace-onnxruntime"

        parity repro "vgg16-float32-opset9-cpu-trace-onnxruntime" --out /tmp/vgg && python /tmp/vgg/repro.py
    """
    from onnx_parity.harness.judging.bundle import slug

    with telling():
        found = find(cell)
        folder = out or Path("repro") / slug(found.id)
        record, details = _bundled(found, seed, folder)
        if as_json:
            typer.echo(msgspec.json.encode({"folder": str(folder), "record": record}))
        else:
            typer.echo(
                "\n".join([f"{found.id}: {record.status} at {record.stage}", *(f"  {line}" for line in details)])
            )
            typer.echo(f"bundle: {folder}; it runs alone: python {folder / 'repro.py'}")
        raise typer.Exit(0 if record.status == "passed" else 1)


def _bundled(cell: Cell, seed: int, folder: Path) -> tuple[Record, list[str]]:
    """Run a cell, and write its bundle while the files of its model are still there."""
    from onnx_parity.harness.axes import Tier
    from onnx_parity.harness.judging.bundle import failure_of, write
    from onnx_parity.harness.judging.outcome import blank_record
    from onnx_parity.harness.results.environment import describe_run
    from onnx_parity.harness.running.stages import Bench

    declaration = cell.case.declaration
    file = f"{declaration.file.parent.name}/{declaration.file.name}"
    blank = blank_record(cell, file, f"{file}::{cell.case.name}::{cell.id}", worker="repro")
    run = describe_run(seed=seed, tier=Tier.FULL, argv=["repro", cell.id], project=Path.cwd())

    def keep(outcome: Outcome) -> None:
        write(failure_of(outcome, outcome.onto(blank), run), folder)

    outcome = Bench(seed).run(cell, ended=keep)
    return outcome.onto(blank), outcome.details
