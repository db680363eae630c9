"""Localisation and reduction inside of branches and loops, and of faults that only show at other sizes."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.scan import scan

import onnx_parity
from onnx_parity.exporter.arrays import to_array
from onnx_parity.exporter.graph.graph import Block
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.control_flow.lowering import if_
from onnx_parity.exporter.verification.oracle import judge
from onnx_parity.harness.axes import Device, Dtype, Shapes
from onnx_parity.harness.case import Case, Declaration, floats, ints, op
from onnx_parity.harness.cases.declarations import declared_in_file
from onnx_parity.harness.cases.program import build
from onnx_parity.harness.judging.reference import consult
from onnx_parity.harness.localisation.localise import Localisation, Suspect, localise
from onnx_parity.harness.localisation.pieces import follow
from onnx_parity.harness.localisation.reduce import reduce, write_source
from onnx_parity.harness.localisation.unrolling import unroll
from onnx_parity.harness.localisation.walk import Walk
from onnx_parity.op_cases import control_flow, scripts
from tests.harness.fakes import cell

Wrong = Callable[[str, Callable[..., object]], None]


def halved_sine(g: Graph, self: Value) -> Value:
    return g.op("Mul", g.op("Sin", self), 0.5)


def localised(declaration: Declaration, *, shapes: Shapes = Shapes.STATIC) -> tuple[Suspect, Localisation]:
    suspect = Suspect.of(cell(declaration, shapes=shapes))
    return suspect, localise(suspect)


def branching(x: Tensor) -> Tensor:
    kept: Tensor = torch.cond(x.sum() > 100, lambda x: x.cos(), lambda x: (x * 2).sin(), (x,))
    return kept + 1


def counting(x: Tensor, n: Tensor) -> Tensor:
    """`sin` is reached in the fourth iteration: before, the other branch is taken."""

    def step(i: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, torch.cond(i > 2, lambda x: x.sin(), lambda x: x * 0.5, (x,))

    _, last = while_loop(lambda i, x: i < n, step, (torch.tensor(0), x))
    assert isinstance(last, Tensor)
    return last


def test_an_operator_in_a_branch_is_named_with_its_branch(wrong: Wrong) -> None:
    wrong("aten::sin", halved_sine)
    _, found = localised(op(branching, floats(2, 3)))
    assert found.first is not None
    assert found.first.operator == "aten::sin"
    assert ", false branch at " in found.first.place
    assert found.alone is not None
    assert not found.alone.passed


def test_an_operator_in_a_loop_is_named_with_its_iteration(wrong: Wrong) -> None:
    wrong("aten::sin", halved_sine)
    _, found = localised(op(counting, floats(3), n=ints(high=6, low=5)))
    assert found.first is not None
    assert found.first.operator == "aten::sin"
    branch, iteration = found.first.place.split(", ")[1:]
    assert branch.startswith("true branch at ")
    assert iteration.startswith("iteration 4 of the loop at ")
    assert any(str(found.first) in line for line in found.lines())


def test_a_condition_that_goes_wrong_is_a_divergence_of_the_operator_that_decides(wrong: Wrong) -> None:
    def never(g: Graph, self: Value, other: Value | float) -> Value:
        return g.op("Less", self, other)

    wrong("aten::gt", never)
    _, found = localised(op(branching, floats(2, 3)))
    assert found.first is not None
    assert found.first.operator == "aten::gt"


def test_a_scan_is_followed_step_by_step(wrong: Wrong) -> None:
    wrong("aten::sin", halved_sine)

    def summed(x: Tensor) -> tuple[Tensor, Tensor]:
        last, every = scan(lambda total, x: (total + x, (total * x).sin()), torch.zeros_like(x[0]), x)
        return last, every

    suspect, found = localised(op(summed, floats(4, 3)))
    assert found.first is not None
    assert found.first.operator == "aten::sin"
    # In the first iteration the total is zero, and half of sin(0) is right.
    assert "iteration 2 of the " in found.first.place
    walk = Walk(suspect.recording, suspect.execute)
    walked = [step.operator for step in walk.steps(suspect.inputs, suspect.example)]
    assert walked.count("aten::sin") == 4
    assert walked[-1] == "aten::stack"


def test_a_loop_of_no_iteration_comes_to_no_operator() -> None:
    captured = onnx_parity.capture_program(counting, (torch.ones(3), torch.tensor(4)))
    still = unroll(captured.graph, (torch.ones(3), torch.tensor(0)))
    operators = [str(node.op) for node in still.nodes]
    assert operators == [
        "aten.lift_fresh.default",
        "aten.detach.default",
        "aten.lt.Tensor",
    ]
    assert still.outputs == still.inputs[:1]
    assert len(unroll(captured.graph, (torch.ones(3), torch.tensor(2))).nodes) > len(still.nodes)


_CASES = [
    pytest.param(next(declaration.cases(name)), id=name)
    for name, declaration in [*declared_in_file(Path(control_flow.__file__)), ("list", scripts.script_returns_list)]
]


@pytest.mark.parametrize("case", _CASES)
def test_the_way_of_a_program_comes_to_what_the_program_does(case: Case) -> None:
    """At the example and at all that the case is run again with."""
    program = build(case, Dtype.FLOAT32, Device.CPU, 0)
    reference = consult(program)
    captured = onnx_parity.capture_program(
        program.module,
        reference.example.inputs,
        input_names=list(program.input_names),
        dynamic_axes=case.declaration.dynamic or None,
    )
    others = [reference.other_values] if reference.other_values is not None else []
    for trial in (reference.example, *others, *reference.other_sizes):
        inputs = [given for given in trial.inputs if isinstance(given, Tensor)]
        recording = unroll(captured.graph, inputs)
        for tensors, _ in follow(recording, inputs, inputs):
            made = dict(tensors)
        known = {value: value.constant for value in recording.outputs if value.constant is not None}
        outputs = [to_array((known | made)[value]) for value in recording.outputs]
        assert judge(outputs, trial.expected).passed


def test_memory_is_bounded_by_the_window_however_long_a_loop_runs(wrong: Wrong) -> None:
    wrong("aten::cos", halved_sine)

    def long(x: Tensor, n: Tensor) -> Tensor:
        x = while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x.sin() + 1), (torch.tensor(0), x))[1]
        return x.cos()

    suspect = Suspect.of(cell(op(long, floats(3), n=ints(high=61, low=60))))
    walk = Walk(suspect.recording, suspect.execute, window=8)
    steps = list(walk.steps(suspect.inputs, suspect.example))
    assert len(steps) > 4 * 60
    assert [step.operator for step in steps if step.diverges] == ["aten::cos"]
    assert walk.most_held <= 4 * (8 + 6)


def test_what_is_wrong_in_a_loop_is_reduced_to_itself(wrong: Wrong, tmp_path: Path) -> None:
    wrong("aten::sin", halved_sine)
    suspect, found = localised(op(counting, floats(3), n=ints(high=6, low=5)))
    small = reduce(suspect, found)
    assert small is not None
    assert [str(node.op) for node in small.piece.nodes] == ["aten.sin.default"]
    written = write_source(small, tmp_path, "left of it").read_text()
    assert ", iteration 4 of the loop at " in written


def test_a_wrong_loop_is_named_as_a_possible_cause(wrong: Wrong) -> None:
    def the_other_way(g: Graph, condition: Value, then: Block, orelse: Block) -> object:
        return if_(g, condition, orelse, then)

    wrong("prim::If", the_other_way)
    line = branching.__code__.co_firstlineno + 1
    _, found = localised(op(branching, floats(3)))
    assert found.first is None
    said = list(found.lines())[-1]
    assert "The error is in what the pieces lack: the branch at " in said
    assert said.endswith(
        f"test_localisation_of_blocks.py:{line} itself, a pass that joins operators, or the runtime's optimiser "
        "(try --runtimes onnxruntime:none)."
    )


# --- other sizes ------------------------------------------------------------------------------------------------------


def frozen_flip(g: Graph, self: Value, dims: list[int]) -> Value:
    """Right where the size of the axis is known, and one too few where it varies."""
    last = -1 if all(isinstance(size, int) for size in self.sizes) else -2
    return g.op("Slice", self, g.const([last]), g.const([-(2**31)]), g.const([0]), g.const([-1]))


def test_a_fault_of_symbolic_sizes_is_found_in_the_pieces(wrong: Wrong) -> None:
    wrong("aten::flip", flip_of_the_example)
    declaration = op(lambda x: x.tanh().flip(0) + 1, floats(3, 2), dynamic={"x": {0: "batch"}})
    suspect, found = localised(declaration, shapes=Shapes.DYNAMIC)
    assert suspect.trial.which.sizes
    assert found.first is not None
    assert found.first.operator == "aten::flip"
    assert "indices element out of data bounds" in found.first.error


def flip_of_the_example(g: Graph, self: Value, dims: list[int]) -> Value:
    """Flips as many rows as the example has: right for it, and wrong for any other number of them."""
    rows = self.sizes[0]
    known = rows if isinstance(rows, int) else rows.node.shape_env.hints[rows.node.expr]
    return g.op("Gather", self, g.const([max(0, known - 1 - row) for row in range(known)]), axis_i=0)


def test_a_failure_at_other_sizes_is_reduced_and_its_source_has_the_dynamic_axes(wrong: Wrong, tmp_path: Path) -> None:
    def expanded(g: Graph, self: Value, size: list[int | torch.SymInt]) -> Value:
        plain = [each if isinstance(each, int) else 6 for each in size]
        return g.op("Reshape", self, g.const(plain))

    wrong("aten::view", expanded)
    declaration = op(lambda x: x.tanh().view(x.shape[0] * 2) * 3, floats(3, 2), dynamic={"x": {0: "batch"}})
    suspect, found = localised(declaration, shapes=Shapes.DYNAMIC)
    assert found.first is not None
    assert found.first.operator == "aten::view"
    small = reduce(suspect, found)
    assert small is not None
    path = write_source(small, tmp_path, "left of it")
    written = runpy.run_path(str(path))
    assert "size=[2*x1.shape[0]]" in path.read_text()
    assert written["DYNAMIC_AXES"] == {"x0": {0: "size_3_1"}, "x1": {0: "size_3_1"}}
    assert [tensor.shape[0] for tensor in written["EXAMPLE"]] == [3, 3]
    assert torch.equal(written["Program"]()(*written["INPUTS"])[0], small.piece(*small.inputs)[0])


def test_a_fault_of_dynamic_sizes_that_shows_at_the_example_is_found(wrong: Wrong) -> None:
    wrong("aten::flip", frozen_flip)
    declaration = op(lambda x: x.tanh().flip(0) + 1, floats(3, 2), dynamic={"x": {0: "batch"}})
    suspect, found = localised(declaration, shapes=Shapes.DYNAMIC)
    assert not suspect.trial.which.sizes
    assert found.first is not None
    assert found.first.operator == "aten::flip"


@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
def test_a_recording_that_differs_from_the_program_is_reported() -> None:
    """The program goes another way at other values; what was recorded does not."""
    declaration = op(lambda x: x + 1 if x[0] > 0 else x.double(), floats(1))
    _, found = localised(declaration)
    assert found.first is None
    assert found.recording is not None
    assert not found.recording.passed
    said = list(found.lines())[-1]
    assert said.startswith("no operator diverges, but the recording differs from the program: ")
    assert said.endswith("Values that the program read while it was recorded are constants of the recording.")
