"""The cause of a failure is found, for planted faults of each kind. `python -m benchmarks.faults` plants more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
import torch.nn.functional as F
from onnx.reference import ReferenceEvaluator

from onnx_parity.exporter.runtime.widening import widen, widen_feeds
from onnx_parity.harness.axes import OPSETS
from onnx_parity.harness.case import floats, op
from onnx_parity.harness.judging.reference_loop import Loop
from onnx_parity.harness.record import Blame, Status
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.subjects.adapters.adapter import USUAL_DTYPES, Adapter, Run, saying
from onnx_parity.harness.subjects.runtime_interface import Runtime
from onnx_parity.harness.subjects.runtimes import OnnxReference
from onnx_parity.op_cases.recurrent import packed_batch_first
from tests.harness import blamed
from tests.harness.fakes import FakeExporter, LyingRuntime, cell, one_node


@pytest.mark.parametrize("kind", blamed.KINDS)
def test_the_planted_cause_is_blamed(kind: object) -> None:
    assert callable(kind)
    wrong = [words for number in range(6) if (words := kind(np.random.default_rng(number)).told_wrongly())]
    assert wrong == []


@pytest.mark.parametrize("fails", [False, True])
def test_a_runtime_is_wrong_where_onnx_reference_is_and_onnxruntime_is_right(fails: bool) -> None:
    """Neither onnx.reference nor this runtime heeds the lengths of sequences. The graph that has them is right."""

    def refuse(model: bytes | Path) -> Run:
        raise RuntimeError("out of luck")

    other: Runtime = OnnxReference("other")
    if fails:
        other = Adapter("other", {"other": "onnx"}, OPSETS, USUAL_DTYPES, refuse, saying(), "")
    outcome = Bench(0, runtimes={"other": other}).run(cell(packed_batch_first, runtime="other"))
    assert (outcome.status, outcome.blame) == (Status.FAILED, Blame.RUNTIME)
    said = "onnxruntime runs it and agrees with torch, so other is wrong"
    if not fails:
        said = "onnx.reference agrees with the runtime, onnxruntime agrees with torch, so other is wrong"
    assert said in "\n".join(outcome.details)


def test_an_optimiser_that_makes_an_invalid_model_of_a_right_one_is_wrong() -> None:
    def refuse(model: bytes | Path) -> Run:
        raise RuntimeError("Invalid model. Node input 'Mul' is not the output of a previous node.")

    optimised = Adapter("onnxruntime", {"onnxruntime": "onnxruntime"}, OPSETS, USUAL_DTYPES, refuse, saying(), "")
    outcome = Bench(0, runtimes={"onnxruntime": optimised}).run(cell(op(F.elu, floats(2, 3)), runtime="onnxruntime"))
    assert (outcome.status, outcome.blame) == (Status.FAILED, Blame.RUNTIME)
    said = "onnxruntime without optimisations agrees with torch: its optimiser is wrong"
    assert said in "\n".join(outcome.details)


def test_a_graph_that_is_wrong_in_every_runtime_is_the_exporters_fault() -> None:
    """The runtimes differ in what they make of it: here onnxruntime's results have another sign."""
    exporter = FakeExporter(lambda opset, request: one_node("Elu", opset, (2, 3), alpha=3.0))
    runtimes = {"onnxruntime": LyingRuntime(lambda output: -output)}
    bench = Bench(0, exporters={"parity": exporter}, runtimes=runtimes)
    outcome = bench.run(cell(op(F.elu, floats(2, 3)), runtime="onnxruntime"))
    assert outcome.blame is Blame.EXPORTER
    assert outcome.details[-1].endswith("and in float64 the graph is wrong too")


def test_a_graph_that_divides_an_integer_by_zero_is_the_exporters_fault() -> None:
    """onnx.reference gives zero for it, as this program does, and onnxruntime an error. ONNX leaves the result open."""
    divided = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 18]>
        divided (float[2, 3] x) => (float[2, 3] y) <int64 none = {0}> {
            whole = Cast <to = 7> (x)
            quotient = Div (whole, none)
            y = Cast <to = 1> (quotient)
        }
    """).SerializeToString()
    exporter = FakeExporter(lambda opset, request: divided)
    outcome = Bench(0, exporters={"parity": exporter}).run(cell(op(torch.zeros_like, floats(2, 3))))
    assert (outcome.status, outcome.blame) == (Status.FAILED, Blame.EXPORTER)
    assert "the graph divides an integer by zero, and ONNX leaves open what that gives" in "\n".join(outcome.details)


_LOOPS = """
    <ir_version: 8, opset_import: ["" : 18]>
    loops (int64 times, bool goes_on, float[2] x) => (float[2] last, float[times, 2] each) {
        last, each = Loop (times, goes_on, x) <body = inner (int64 n, bool on, float[2] x)
            => (bool goes_on_, float[2] sum, float[2] sum_) {
            number = Cast <to = 1> (n)
            sum = Add (x, number)
            sum_ = Identity (sum)
            two = Constant <value = int64 {2}> ()
            goes_on_ = Less (n, two)
        }>
    }
"""


@pytest.mark.parametrize(("times", "rows"), [(2, 2), (9, 3)])
def test_the_witness_stacks_what_a_loop_scans(times: int, rows: int) -> None:
    model = onnx.parser.parse_model(_LOOPS)
    given = {"times": np.array(times), "goes_on": np.array(True), "x": np.array([1.0, 2.0], np.float32)}
    sums = np.cumsum(np.arange(9))
    wanted = np.stack([1 + sums, 2 + sums], 1)
    last, each = ReferenceEvaluator(model, new_ops=[Loop]).run(None, given)
    np.testing.assert_array_equal(each, wanted[:rows])
    np.testing.assert_array_equal(last, wanted[rows - 1])
    # Without a condition, the one that the body returns is ignored.
    model.graph.node[0].input[1] = ""
    _, each = ReferenceEvaluator(model, new_ops=[Loop]).run(None, given)
    np.testing.assert_array_equal(each, wanted[:times])


def test_in_float64_a_variance_is_computed_in_float64_too() -> None:
    """GroupNormalization takes the difference of two means, in the dtype of `stash_type`: float32 if none is said."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 21]>
        groups (float[1, 2] x) => (float[1, 2] y) <float[2] one = {1, 1}, float[2] none = {0, 0}>
        { y = GroupNormalization <num_groups = 1> (x, one, none) }
    """)
    x = np.array([[4.85386086, 4.88173389]], np.float32)
    (exact,) = ReferenceEvaluator(widen(model)).run(None, widen_feeds({"x": x}))
    right = F.group_norm(torch.from_numpy(x).double(), 1).numpy()
    assert np.allclose(exact, right, rtol=1e-9)
    (rounded,) = ReferenceEvaluator(model).run(None, {"x": x})
    assert not np.allclose(rounded, right, rtol=1e-3)
