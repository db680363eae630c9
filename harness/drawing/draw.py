"""Draws one case: exports it again at each opset, and runs it with the values inside the model as outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import onnx
import onnx_ir as ir
import torch

from onnx_parity.exporter.arrays import to_array
from onnx_parity.exporter.graph.graph import Graph, Value
from onnx_parity.exporter.verification.float64 import in_dtype
from onnx_parity.exporter.verification.intermediates import computed, shared_values
from onnx_parity.exporter.verification.oracle import Expected, expect, judge
from onnx_parity.harness.cases.draws import DrawnCase
from onnx_parity.harness.drawing.drawings import AtOpset, Drawing, DrawnGraph, ErrorInside, ErrorPicture, blank_drawing
from onnx_parity.harness.drawing.drawn_graph import draw_graph
from onnx_parity.harness.drawing.error_picture import error_picture
from onnx_parity.harness.drawing.program_text import program_text
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.judging.reference import Trial
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.one_line import error_line, one_line
from onnx_parity.harness.record import Record, Status
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.subjects.exporter_interface import Captured
from onnx_parity.harness.subjects.exporters import EXPORTERS, ParityCapture
from onnx_parity.harness.subjects.runtimes import RUNTIMES

#: The errors of torch's operators in a dtype that they do not have.
_CANNOT_RUN = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)


def draw(record: Record, cell: Cell, opsets: Sequence[int], seed: int, others: Sequence[Cell] = ()) -> Drawing:
    """The drawing of a case at the axes of `cell`, at all of these opsets. `record` is what a run has of the cell, and
    `others` are cells of other exporters, of which the graphs are drawn.
    """
    drawing = blank_drawing(record)
    if isinstance(cell.case, DrawnCase):
        return msgspec.structs.replace(drawing, missing="a drawn case has a program for each draw")
    bench = Bench(seed)
    # A cell that ended its process is exported, and not run.
    outcome = None if record.status is Status.CRASHED else bench.run(cell)
    try:
        prepared, captured = bench.capture(cell)
    except Exception as error:  # noqa: BLE001  torch or the exporter raised it: it is what there is to show.
        return msgspec.structs.replace(drawing, missing=f"the program could not be recorded: {one_line(str(error))}")
    exports = _Exports()
    for opset in opsets:
        with prepared.program.at_home():
            exports.add(captured, cell, opset)
    for other in others:
        try:
            its, its_capture = bench.capture(other)
        except Exception as error:  # noqa: BLE001  Another exporter raised it, which is what there is to show of it.
            exports.opsets.append(AtOpset(other.opset, error=error_line(error), exporter=other.exporter))
        else:
            with its.program.at_home():
                exports.add(its_capture, other, other.opset, other.exporter)
    trial = (outcome.trial if outcome else None) or prepared.reference.example
    values, errors, missing = _errors(captured, cell, trial, outcome)
    return msgspec.structs.replace(
        drawing,
        program=program_text(captured.recorded.graph) if isinstance(captured, ParityCapture) else "",
        opsets=exports.opsets,
        graphs=list(exports.graphs.values()),
        values=values,
        errors=errors,
        missing=missing,
    )


@dataclass
class _Exports:
    """Exports of captured programs. Graphs that several opsets share are kept once."""

    opsets: list[AtOpset] = field(default_factory=list)
    graphs: dict[bytes, DrawnGraph] = field(default_factory=dict)

    def add(self, captured: Captured, cell: Cell, opset: int, exporter: str = "") -> None:
        try:
            graph = draw_graph(_model(captured, opset))
        except Exception as error:  # noqa: BLE001  Exporters raise what they like: it is shown for this opset.
            reason = EXPORTERS[cell.exporter].refusal(error) or error_line(error)
            self.opsets.append(AtOpset(opset, error=reason, exporter=exporter))
            return
        key = msgspec.json.encode(graph)
        self.graphs.setdefault(key, graph)
        self.opsets.append(AtOpset(opset, list(self.graphs).index(key), exporter=exporter))


def _model(captured: Captured, opset: int) -> ir.Model:
    """The exported model. Only this project's exporter tells where its nodes come from."""
    if isinstance(captured, ParityCapture):
        return captured.recorded.lower(opset).model
    delivered = captured.deliver(opset, None)
    assert isinstance(delivered, bytes)
    return ir.from_proto(onnx.load_model_from_string(delivered))


def _errors(
    captured: Captured, cell: Cell, trial: Trial, outcome: Outcome | None
) -> tuple[dict[str, ErrorInside], list[ErrorPicture], str]:
    """The errors of the values inside the model and of its outputs, and why there are none."""
    if outcome is None or outcome.status not in (Status.PASSED, Status.FAILED):
        return {}, [], ""
    inside: dict[str, Expected] = {}
    names: list[str] = []
    try:
        if isinstance(captured, ParityCapture):
            program = captured.recorded.lower(cell.opset)
            names = list(program.output_names)
            if all(isinstance(given, torch.Tensor) for given in trial.inputs):
                shared = {name: value for name, value in shared_values(program).items() if name not in names}
                tensors = [given for given in trial.inputs if isinstance(given, torch.Tensor)]
                with torch.no_grad():
                    inside = _expect_values(captured.recorded.graph, shared, tensors)
            known = {output.name: output for node in program.model.graph for output in node.outputs}
            program.model.graph.outputs.extend(known[name] for name in inside)
            model = program.serialize()
        else:
            # Not within `no_grad`, in which torch takes paths through some modules that it cannot export.
            delivered = captured.deliver(cell.opset, None)
            assert isinstance(delivered, bytes)
            model = delivered
            names = [value.name for value in onnx.load_model_from_string(model).graph.output]
        outputs = tuple(RUNTIMES[outcome.runtime].load(model, cell.device).run(trial.feeds))
    except Exception as error:  # noqa: BLE001  The runtime raised it, or the export: the cell failed by it.
        return {}, [], f"the model did not run: {error_line(error)}"
    judged = zip(inside.items(), outputs[len(outputs) - len(inside) :], strict=True)
    values = {name: _value_error(got, expected) for (name, expected), got in judged}
    # The outputs of the cell itself: with more outputs, a runtime may optimise less.
    own = outcome.outputs or outputs[: len(names)]
    named = zip(names, own, trial.expected, strict=False)
    return values, [error_picture(name, got, expected) for name, got, expected in named], ""


def _expect_values(graph: Graph, shared: Mapping[str, Value], inputs: Sequence[torch.Tensor]) -> dict[str, Expected]:
    """What the values inside the model must be, from torch, and from torch in float64 as far as it can."""
    known = computed(graph, inputs)
    try:
        with in_dtype(torch.float64):
            exact = computed(graph, [each.double() if each.is_floating_point() else each for each in inputs])
    except _CANNOT_RUN:
        exact = {}
    found: dict[str, Expected] = {}
    for name, value in shared.items():
        tensor, twin = known.get(value), exact.get(value)
        if tensor is not None:
            wide = to_array(twin).astype("float64") if twin is not None and tensor.is_floating_point() else None
            found[name] = expect(to_array(tensor), wide)
    return found


def _value_error(got: object, expected: Expected) -> ErrorInside:
    verdict = judge([got], [expected])
    metrics = verdict.metrics
    growth = (1.0 / metrics.headroom if metrics.headroom else None) if metrics else (0.0 if verdict.passed else None)
    return ErrorInside(not verdict.passed, growth, verdict.detail.removeprefix("output 0 "))
