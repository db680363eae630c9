"""Compares models with their programs at every size from 0 to 9 of every dynamic axis that their assumptions allow.

    python -m benchmarks.decisions.every_size                                  # all declarations with dynamic axes
    python -m benchmarks.decisions.every_size "*pool*" --part 3/10 --opset 11

Where PyTorch does not run the program, nothing is compared. A model is right where one of these runs it and returns
what the program does: onnxruntime, onnxruntime without its optimizations, and onnx.reference, which comes first where
an axis is empty, since onnxruntime refuses there what the specification defines. A model that none of them runs for
inputs of nothing is right if it returns nothing, of the program's shapes, by the specification's rules for shapes.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import onnx
import torch
import typer

from benchmarks.decisions.chosen import PartOption, chosen_declarations, part_of
from onnx_parity.exporter.errors import OnnxExporterError
from onnx_parity.exporter.graph.assumptions import Assumption
from onnx_parity.exporter.program import ONNXProgram
from onnx_parity.exporter.recording.fakes.input_layouts import lies_like
from onnx_parity.exporter.runtime.sessions import errors_of_empty_axes
from onnx_parity.exporter.torch_inside.pytree import tree_leaves
from onnx_parity.exporter.verification.oracle import judge
from onnx_parity.exporter.verification.verify import is_rounding
from onnx_parity.harness.any_size.in_copies import run_in_copies
from onnx_parity.harness.axes import OPTIMISATION_LEVELS, Capture, Device, Selection, Shapes, Tier
from onnx_parity.harness.cases.dynamic_axes import example_sizes
from onnx_parity.harness.cases.program import CannotBuildError, InputSet, Program, build
from onnx_parity.harness.judging.reference import Judged, Trial
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.one_line import one_line
from onnx_parity.harness.subjects.exporter_interface import NoSuchFormError, Request
from onnx_parity.harness.subjects.exporters import Parity, ParityCapture
from onnx_parity.harness.subjects.runtime_interface import Runtime, Session
from onnx_parity.harness.subjects.runtimes import OnnxReference, OnnxRuntime

SIZES = range(10)


def dynamic_cells(patterns: list[str], opset: int) -> Iterator[Cell]:
    """One cell with dynamic axes of each case, at an opset and in the first of its dtypes."""
    selection = Selection(tier=Tier.DEFAULT, opsets=(opset,), devices=(Device.CPU,), captures=(Capture.TRACE,))
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
        exported = captured.recorded.lower(opset_version=cell.opset)
    except (CannotBuildError, NoSuchFormError, OnnxExporterError):
        return ["refused"]
    judged, model, compared = Judged(program), _Model(exported), 0
    wrong: list[str] = []
    before = example_sizes(cell.case.declaration.dynamic, program.makers, cell.case.declaration.place)
    for which in every_size(program):
        sizes = {**before, **dict(which.sizes)}
        if any(each.holds_for(sizes) is False for each in exported.assumptions):
            continue
        try:
            trial = judged.trial(which)
        except Exception:  # noqa: BLE001  The program is anybody's: it does not run at these sizes.
            continue
        if not all(_lies_as_assumed(each, trial.inputs) for each in exported.assumptions):
            continue
        compared += 1
        differences = model.wrong_for(trial)
        if differences:
            differences = model.wrong_for(_with_fused_attention(program, which))
        wrong += [f"{which}: {each}" for each in differences]
    return [f"compared {compared}", *wrong]


def _with_fused_attention(program: Program, which: InputSet) -> Trial:
    """What the program returns with the kernels of encoders and of attention that torch takes without gradients."""
    torch.backends.mha.set_fastpath_enabled(True)
    try:
        return Judged(program).trial(which)
    finally:
        torch.backends.mha.set_fastpath_enabled(False)


def _lies_as_assumed(assumption: Assumption, inputs: Sequence[object]) -> bool:
    layout = assumption.of_layout
    if layout is None:
        return True
    given = inputs[layout.number]
    assert isinstance(given, torch.Tensor)
    return lies_like(layout.example, given, exactly=layout.exactly)


@dataclass
class _Model:
    """An exported model, in the runtimes that may run it."""

    exported: ONNXProgram
    _sessions: dict[str, Session] = field(default_factory=dict)

    def wrong_for(self, trial: Trial) -> list[str]:
        """What each runtime says is wrong; nothing if one of them returns what the program does."""
        is_empty = any(not each.numel() for each in tree_leaves(trial.inputs) if isinstance(each, torch.Tensor))
        runtimes: list[Runtime] = [OnnxRuntime(), OnnxRuntime(level=OPTIMISATION_LEVELS[0])]
        runtimes.insert(0 if is_empty else 2, OnnxReference())
        wrong, are_errors = [], True
        for runtime in runtimes:
            try:
                if runtime.name not in self._sessions:
                    self._sessions[runtime.name] = runtime.load(self.exported.serialize(), Device.CPU)
                outputs = self._sessions[runtime.name].run(trial.feeds)
            except errors_of_empty_axes() as error:
                wrong.append(f"{runtime.name} fails: {one_line(str(error))[:200]}")
                continue
            verdict = judge(outputs, trial.expected)
            given = dict(zip(trial.feeds, trial.inputs, strict=True))
            arrays = [each for each in outputs if isinstance(each, np.ndarray)]
            if verdict.passed or is_rounding(self.exported.model, given, trial.expected, arrays):
                return []
            are_errors = False
            wrong.append(f"{runtime.name}: {verdict.detail}")
        return [] if are_errors and self._returns_nothing(trial) else wrong

    def _returns_nothing(self, trial: Trial) -> bool:
        """Whether all outputs are empty, and have the program's shapes by the specification's rules for shapes."""
        if any(each.value.size for each in trial.expected):
            return False
        model = onnx.load_from_string(self.exported.serialize())
        for given in model.graph.input:
            dims, fed = given.type.tensor_type.shape.dim, trial.feeds[given.name]
            for dim, size in zip(dims, fed.shape if isinstance(fed, np.ndarray) else (), strict=True):
                dim.dim_value = size
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")
        del model.graph.value_info[:]
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph.output
        shapes = [tuple(dim.dim_value for dim in each.type.tensor_type.shape.dim) for each in inferred]
        return shapes == [each.value.shape for each in trial.expected]


def main(
    patterns: Annotated[list[str] | None, typer.Argument(help="Declarations that match: pool*.")] = None,
    part: PartOption = "1/1",
    opset: Annotated[int, typer.Option(help="The opset of the models. Before opset 14, a 0 in a shape copies.")] = 18,
) -> None:
    """Compare, and end with 1 if a model is wrong or fails at a size at which its program runs."""
    torch.set_num_threads(1)
    # The fused kernel returns no weights of attention for nothing, or ends the process. Models have the definition's.
    torch.backends.mha.set_fastpath_enabled(False)
    # A sparse tensor with an element outside of its shape is an error then. Otherwise torch writes to any memory.
    torch.sparse.check_sparse_tensor_invariants.enable()
    cells = part_of(list(dynamic_cells(patterns or [], opset)), part)
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
