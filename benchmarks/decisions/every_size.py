"""Compares models with their programs at every size from 0 to 9 of every dynamic axis that their assumptions allow.

    python -m benchmarks.decisions.every_size                                  # all declarations with dynamic axes
    python -m benchmarks.decisions.every_size "*pool*" --part 3/10

Where PyTorch does not run the program, nothing is compared. Models run in onnxruntime, and in onnx.reference where an
axis is empty, since onnxruntime refuses there what the specification defines.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import torch
import typer

from benchmarks.decisions.chosen import chosen_declarations
from onnx_parity.exporter.errors import OnnxExporterError
from onnx_parity.exporter.runtime.sessions import errors_of_empty_axes
from onnx_parity.exporter.verification.oracle import judge
from onnx_parity.harness.any_size.in_copies import run_in_copies
from onnx_parity.harness.axes import Capture, Device, Selection, Shapes, Tier
from onnx_parity.harness.cases.dynamic_axes import example_sizes
from onnx_parity.harness.cases.program import CannotBuildError, InputSet, Program, build
from onnx_parity.harness.judging.reference import Judged
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.one_line import one_line
from onnx_parity.harness.subjects.exporter_interface import NoSuchFormError, Request
from onnx_parity.harness.subjects.exporters import Parity, ParityCapture
from onnx_parity.harness.subjects.runtime_interface import Session
from onnx_parity.harness.subjects.runtimes import OnnxReference, OnnxRuntime

OPSET = 18
SIZES = range(10)


def dynamic_cells(patterns: list[str]) -> Iterator[Cell]:
    """One cell with dynamic axes of each case, in the first of its dtypes."""
    selection = Selection(tier=Tier.DEFAULT, opsets=(OPSET,), devices=(Device.CPU,), captures=(Capture.TRACE,))
    for name, declaration in chosen_declarations(patterns):
        seen = set()
        for cell in cells_of(name, declaration, selection):
            if cell.shapes is Shapes.DYNAMIC and cell.case.label not in seen:
                seen.add(cell.case.label)
                yield cell


def every_size(program: Program) -> Iterator[InputSet]:
    """Each dynamic axis at each size, and all of them at the same."""
    declaration = program.declaration
    names = list(example_sizes(declaration.dynamic, program.makers, declaration.place))
    for size in SIZES:
        yield from (InputSet(sizes=((name, size),)) for name in names)
        if len(names) > 1:
            yield InputSet(sizes=tuple((name, size) for name in names))


def compare(cell: Cell) -> list[str]:
    """How many sizes were compared, and where the model of a cell fails or differs."""
    warnings.simplefilter("ignore")
    try:
        program = build(cell.case, cell.dtype, cell.device, 0)
        example = program.inputs(InputSet())
        dynamic = cell.case.declaration.asked(cell.shapes)
        captured = Parity().capture(Request(program.module, example, program.input_names, dynamic, cell.capture))
        assert isinstance(captured, ParityCapture)
        exported = captured.recorded.lower(opset_version=OPSET)
    except (CannotBuildError, NoSuchFormError, OnnxExporterError):
        return ["refused"]
    model = exported.serialize()
    judged, compared = Judged(program), 0
    wrong: list[str] = []
    before = example_sizes(cell.case.declaration.dynamic, program.makers, cell.case.declaration.place)
    sessions: dict[str, Session] = {}
    for which in every_size(program):
        sizes = {**before, **dict(which.sizes)}
        if any(each.holds_for(sizes) is False for each in exported.assumptions):
            continue
        try:
            trial = judged.trial(which)
        except Exception:  # noqa: BLE001  The program is anybody's: it does not run at these sizes.
            continue
        # What neither of them runs is a defect of theirs: the default matrix knows these.
        errors = []
        for runtime in (OnnxReference(), OnnxRuntime()) if 0 in sizes.values() else (OnnxRuntime(),):
            try:
                if runtime.name not in sessions:
                    sessions[runtime.name] = runtime.load(model, program.device)
                outputs = sessions[runtime.name].run(trial.feeds)
            except errors_of_empty_axes() as error:
                errors.append(f"{which}: {runtime.name} fails: {one_line(str(error))[:200]}")
                continue
            compared += 1
            verdict = judge(outputs, trial.expected)
            if not verdict.passed:
                wrong.append(f"{which}: {verdict.detail}")
            break
        else:
            wrong += errors
    return [f"compared {compared}", *wrong]


def main(
    patterns: Annotated[list[str] | None, typer.Argument(help="Declarations that match: pool*.")] = None,
    part: Annotated[str, typer.Option(help="Only this part of the cells: 3/10 is the third of ten.")] = "1/1",
) -> None:
    """Compare, and end with 1 if a model is wrong or fails at a size at which its program runs."""
    torch.set_num_threads(1)
    number, parts = map(int, part.split("/"))
    cells = list(dynamic_cells(patterns or []))[number - 1 :: parts]
    counts: Counter[str] = Counter()
    for cell, (first, *wrong) in run_in_copies(cells, compare):
        counts["cells"] += 1
        counts["refused"] += first == "refused"
        counts["sizes"] += int(first.removeprefix("compared ")) if first.startswith("compared") else 0
        counts["wrong"] += bool(wrong)
        for line in wrong:
            print(f"{cell.id}: {line}", flush=True)
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
    raise typer.Exit(bool(counts["wrong"]))


if __name__ == "__main__":
    typer.run(main)
