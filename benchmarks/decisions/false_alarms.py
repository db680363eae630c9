"""Counts what `verify=True` refuses of the models of declared cases, with several seeds of their inputs and weights.

    python -m benchmarks.decisions.false_alarms                         # every case of the default tier, ten seeds
    python -m benchmarks.decisions.false_alarms --part 1/5 --seeds 3    # every fifth case
    python -m benchmarks.decisions.false_alarms "*norm*"

Cases whose declaration asks for a tolerance or leaves the signs of zeros out are counted apart: what is refused of them
is no false alarm. Nor is it where the model assumes what does not hold for the inputs that were tried, and nobody
stated it: the model does not compute there what the program does. Of what is printed, cells that the matrix knows to
fail in onnxruntime, and those for which torch has no kernel, are none either.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import torch
import typer

import onnx_parity
from benchmarks.decisions.chosen import PartOption, chosen_declarations, part_of
from onnx_parity.harness.any_size.in_copies import run_in_copies
from onnx_parity.harness.axes import Capture, Device, Selection, Tier
from onnx_parity.harness.cases.program import CannotBuildError, InputSet, build
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.one_line import one_line

OPSET = 18


def default_cells(patterns: list[str]) -> Iterator[Cell]:
    """One cell of each case and dtype, at one opset."""
    selection = Selection(tier=Tier.DEFAULT, opsets=(OPSET,), devices=(Device.CPU,), captures=(Capture.TRACE,))
    for name, declaration in chosen_declarations(patterns):
        yield from cells_of(name, declaration, selection)


def refused(cell: Cell, seeds: int) -> list[str]:
    """How a cell ends, and what `verify=True` says with each seed with which it refuses the model."""
    warnings.simplefilter("ignore")
    declaration = cell.case.declaration
    told, are_assumed = [], []
    for seed in range(seeds):
        try:
            program = build(cell.case, cell.dtype, cell.device, seed)
            dynamic = {name: axes for name, axes in declaration.asked(cell.shapes).items() if isinstance(axes, dict)}
            onnx_parity.export(
                program.module, program.inputs(InputSet()), input_names=program.input_names, dynamic_axes=dynamic,
                opset_version=OPSET, verify=True,
            )  # fmt: skip
        except onnx_parity.VerificationError as error:
            told.append(f"seed {seed}: {one_line(str(error))}")
            are_assumed.append(error.is_assumed_otherwise)
        except (CannotBuildError, onnx_parity.OnnxExporterError):
            return ["not exported"]
    if told and all(are_assumed):
        return ["assumed otherwise", *told]
    is_looser = bool(declaration.tolerance.get(cell.dtype)) or not declaration.signed_zeros
    return ["declared otherwise" if is_looser and told else "verified", *told]


def main(
    patterns: Annotated[list[str] | None, typer.Argument(help="Declarations that match: pool*.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="With how many seeds.")] = 10,
    part: PartOption = "1/1",
) -> None:
    """Export and verify, print what is refused, and end with 1 if anything is that its declaration does not expect."""
    torch.set_num_threads(1)
    cells = part_of(list(default_cells(patterns or [])), part)
    counts: Counter[str] = Counter()
    for cell, (how, *told) in run_in_copies(cells, partial(refused, seeds=seeds)):
        counts[how] += 1
        counts["refused"] += bool(told) and how == "verified"
        for line in told if how == "verified" else ():
            print(f"{cell.id}: {line[:300]}", flush=True)
    print(f"{len(cells)} cells, {seeds} seeds: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    raise typer.Exit(bool(counts["refused"]))


if __name__ == "__main__":
    typer.run(main)
