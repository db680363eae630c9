"""Transformations of models: what they must keep, chains of them, fewer bits, and work that cells share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
import torch.nn.functional as F
from onnx import TensorProto, helper

from onnx_parity.exporter.verification.oracle import expect
from onnx_parity.harness.axes import TRANSFORMATION_NAMES, AxisError, Selection, Shapes, parse_transforms
from onnx_parity.harness.case import floats, op
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.matrix.cells import cells_of
from onnx_parity.harness.matrix.lookup import cell_of
from onnx_parity.harness.record import Blame, Stage, Status
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.subjects.delivered import Delivered
from onnx_parity.harness.subjects.exporter_interface import Request
from onnx_parity.harness.transformations.named import TRANSFORMATIONS
from onnx_parity.harness.transformations.signal import judge_by_signal
from onnx_parity.harness.transformations.transformation import (
    Transformation,
    TransformationError,
    applied,
    check_results,
)
from tests.harness.fakes import FakeExporter, LyingRuntime, cell, model, one_node

_ELU = op(F.elu, floats(2, 3), dynamic={"x": {0: "batch"}})
_LINEAR = op(lambda x, w: F.relu(x @ w), floats(4, 8), floats(8, 8), dynamic={"x0": {0: "batch"}})


def elu(opset: int, request: Request) -> bytes:
    return one_node("Elu", opset, ("batch", 3) if request.dynamic else (2, 3))


def named(name: str, apply: Callable[[onnx.ModelProto], object], floor: float | None = None) -> Transformation:
    return Transformation(name, lambda given, samples: apply(given), "onnx", ("onnx",), floor=floor)


# --- the axis ---------------------------------------------------------------------------------------------------------


def test_chains_are_read_and_misspelt_names_are_refused() -> None:
    assert parse_transforms("none,onnxslim+float16, convert:13") == ((), ("onnxslim", "float16"), ("convert:13",))
    assert parse_transforms("my.passes:fuse") == (("my.passes:fuse",),)
    for text, words in (
        ("onnxslm", "there is no 'onnxslm', only none, ort:basic, "),
        ("ort:fast", "there is no 'ort:fast', only none, "),
        ("convert:99", "there is no opset 99 here, only 7 to 28."),
        ("onnxslim+", "there is no '', only none, "),
    ):
        with pytest.raises(AxisError) as refused:
            parse_transforms(text)
        assert str(refused.value).startswith(f"--transforms {text}: {words}")


def test_a_cell_without_transformations_keeps_its_id_and_others_are_found_by_theirs() -> None:
    selection = Selection(opsets=(18,), transforms=((), ("onnxslim", "convert:13")), runtimes=("onnxruntime", "tract"))
    cells = [each for each in cells_of("case", _ELU, selection) if each.shapes is Shapes.STATIC]
    assert [each.id.removeprefix("case-float32-opset18-cpu-") for each in cells if each.device == "cpu"] == [
        "trace-onnxruntime",
        "trace-tract",
        "trace+onnxslim+convert:13-onnxruntime",
        "trace+onnxslim+convert:13-tract",
    ]
    for each in cells:
        found = cell_of(each.id, "case", _ELU)
        assert found is not None
        assert (found.id, found.transforms, found.runtime) == (each.id, each.transforms, each.runtime)


# --- what must stay ---------------------------------------------------------------------------------------------------


def _with(change: Callable[[onnx.ModelProto], object]) -> Callable[[onnx.ModelProto], onnx.ModelProto]:
    def apply(given: onnx.ModelProto) -> onnx.ModelProto:
        change(given)
        return given

    return apply


def _rename_input(given: onnx.ModelProto) -> None:
    given.graph.input[0].name = given.graph.node[0].input[0] = "other"


def _drop_output(given: onnx.ModelProto) -> None:
    given.graph.node.append(helper.make_node("Identity", ["y"], ["z"]))
    given.graph.output[0].name = "z"


def _narrow(given: onnx.ModelProto) -> None:
    for value in (given.graph.input[0], given.graph.output[0]):
        value.type.tensor_type.elem_type = TensorProto.DOUBLE


def _fix(given: onnx.ModelProto) -> None:
    given.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2


def _older(given: onnx.ModelProto) -> None:
    given.opset_import[0].version = 17


def _break(given: onnx.ModelProto) -> None:
    given.graph.node[0].op_type = "Eluu"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_rename_input, "it changed the inputs: they were x, and are other"),
        (_drop_output, "it changed the outputs: they were y, and are z"),
        (_narrow, "it changed the type of input x from tensor(float) to tensor(double)"),
        (_fix, "it fixed axis 0 (batch) of input x, which was dynamic, to 2"),
        (_older, "it returned a model of opset 17 instead of 18"),
        (_break, "it made a model that is no valid ONNX: "),
    ],
)
def test_what_a_transformation_must_keep_is_checked(change: Callable[[onnx.ModelProto], object], words: str) -> None:
    before = Delivered(one_node("Elu", 18, ("batch", 3)))
    with pytest.raises(TransformationError) as raised:
        applied(named("it", _with(change)), before, (), None)
    assert str(raised.value).startswith(words)


def test_what_it_may_change_is_left_to_it() -> None:
    def rename_values(given: onnx.ModelProto) -> onnx.ModelProto:
        given.graph.node[0].output[0] = "inner"
        given.graph.node.append(helper.make_node("Identity", ["inner"], ["y"]))
        given.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
        return given

    after = applied(named("it", rename_values), Delivered(one_node("Elu", 18, ("batch", 3))), (), None)
    assert len(after.nodes) == 2


def _with_output_axis(size: str | int) -> bytes:
    """`x[x > 0]`-like: the first axis of the output is as long as there are elements that are not zero."""
    nonzero = helper.make_node("NonZero", ["x"], ["found"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("batch", 3))
    found = helper.make_tensor_value_info("found", TensorProto.INT64, (2, size))
    graph = helper.make_graph([nonzero], "g", [x], [found])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return bytes(made.SerializeToString())


def _declare(size: int) -> Transformation:
    def apply(given: onnx.ModelProto) -> onnx.ModelProto:
        given.graph.output[0].type.tensor_type.shape.dim[1].dim_value = size
        return given

    return named("it", apply)


def test_an_axis_of_an_output_that_follows_from_values_may_be_fixed_if_results_agree() -> None:
    before = Delivered(_with_output_axis("u0"))
    after = applied(_declare(6), before, (), None)
    check_results(_declare(6), before, after, [(2, 6)])
    with pytest.raises(TransformationError) as raised:
        check_results(_declare(6), before, after, [(2, 5)])
    assert str(raised.value) == "it fixed axis 1 of output found to 6, but it can be 5"
    with pytest.raises(TransformationError) as raised:
        applied(_declare(6), Delivered(_with_output_axis("3*batch")), (), None)
    assert str(raised.value) == "it fixed axis 1 (3*batch) of output found, which was dynamic, to 6"


# --- cells ------------------------------------------------------------------------------------------------------------


def test_a_size_that_follows_from_values_is_held_to_the_results_of_all_inputs() -> None:
    positive = op(lambda x: (x > 0).nonzero().T, floats(2, 3))
    found = Bench(0).run(cell(positive, opset=18))
    assert found.prepared is not None
    (expected,) = found.prepared.reference.example.expected
    size = expected.value.shape[1]
    outcome = Bench(0, transformations={"it": _declare(size)}).run(cell(positive, opset=18, transforms=("it",)))
    assert (outcome.status, outcome.stage, outcome.blame) == (Status.FAILED, Stage.TRANSFORM, Blame.TRANSFORMATION)
    assert outcome.reason.startswith(f"TransformationError: it fixed axis 1 of output output to {size}, but it can be ")
    assert outcome.reason.endswith(" (other values)")


def run(*chain: Transformation, runtime: str = "onnxruntime") -> Outcome:
    bench = Bench(0, exporters={"parity": FakeExporter(elu)}, transformations={each.name: each for each in chain})
    return bench.run(cell(_ELU, runtime=runtime, shapes=Shapes.DYNAMIC, transforms=tuple(each.name for each in chain)))


def test_a_transformed_model_is_run_at_other_sizes_too() -> None:
    outcome = run(named("same", lambda given: given))
    assert (outcome.status, outcome.stage) == (Status.PASSED, Stage.RERUN_VALUES)
    assert {"transform", "rerun_sizes"} <= set(outcome.seconds)


def _other_alpha(given: onnx.ModelProto) -> onnx.ModelProto:
    given.graph.node[0].attribute[0].f = 0.5
    return given


def test_the_first_transformation_after_which_it_is_wrong_is_named() -> None:
    outcome = run(named("good", lambda given: given), named("bad", _other_alpha), named("last", lambda given: given))
    assert (outcome.status, outcome.stage, outcome.blame) == (Status.FAILED, Stage.COMPARE, Blame.TRANSFORMATION)
    assert outcome.details[-1].endswith("onnxruntime is right before bad and wrong after it, so bad is wrong")


def test_a_model_that_was_wrong_before_is_not_the_fault_of_a_transformation() -> None:
    exporter = FakeExporter(lambda opset, request: one_node("Elu", opset, alpha=0.5))
    same = named("same", lambda given: given)
    bench = Bench(0, exporters={"parity": exporter}, transformations={"same": same})
    assert bench.run(cell(_ELU, transforms=("same",))).blame is Blame.EXPORTER


def test_an_error_of_a_transformation_is_its_failure_and_a_refusal_is_not() -> None:
    def fail(given: onnx.ModelProto) -> object:
        raise KeyError("weights")

    def refuse(given: onnx.ModelProto) -> object:
        raise NotImplementedError("Elu")

    failed, refused = run(named("bad", fail)), run(named("bad", refuse))
    assert (failed.status, failed.stage, failed.blame) == (Status.FAILED, Stage.TRANSFORM, Blame.TRANSFORMATION)
    assert failed.reason == "TransformationError: bad raised KeyError: 'weights'"
    assert (refused.status, refused.declined) == (Status.ABSENT, True)
    assert refused.reason == "bad does not support it: Elu"


def test_cells_that_differ_in_their_runtime_share_export_and_transformation() -> None:
    made: list[str] = []

    def make(opset: int, request: Request) -> bytes:
        made.append(f"opset {opset}")
        return elu(opset, request)

    def same(given: onnx.ModelProto) -> onnx.ModelProto:
        made.append("transformed")
        return given

    runtimes = {name: LyingRuntime(lambda output: output, name) for name in ("one", "two", "three")}
    bench = Bench(
        0,
        exporters={"parity": FakeExporter(make)},
        runtimes=runtimes,
        transformations={"same": named("same", same)},
    )
    selection = Selection(opsets=(13, 18), runtimes=tuple(runtimes), transforms=((), ("same",)))
    cells = [each for each in cells_of("case", op(F.elu, floats(2, 3)), selection) if each.device == "cpu"]
    assert len(cells) == 12
    assert {bench.run(each).status for each in cells} == {Status.PASSED}
    assert made == ["opset 13", "transformed", "opset 18", "transformed"]


# --- those that have names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*TRANSFORMATION_NAMES, "convert:21", "onnxscript:convert:20"])
def test_a_transformation_that_is_installed_keeps_a_linear_layer_right(name: str) -> None:
    if reason := TRANSFORMATIONS[name].missing():
        pytest.skip(reason)
    outcome = Bench(0).run(cell(_LINEAR, opset=18, shapes=Shapes.DYNAMIC, transforms=(name,)))
    assert (outcome.status, outcome.reason) == (Status.PASSED, "")


def test_what_a_converter_cannot_do_is_a_refusal() -> None:
    outcome = Bench(0).run(cell(_LINEAR, opset=18, transforms=("convert:13",)))
    assert (outcome.status, outcome.declined) == (Status.ABSENT, True)
    assert outcome.reason.startswith("convert:13 does not support it: No Adapter")


def test_a_function_from_a_model_to_a_model_is_a_transformation() -> None:
    assert Bench(0).run(cell(_ELU, transforms=("copy:copy",))).status is Status.PASSED
    missing = Bench(0).run(cell(_ELU, transforms=("no_such_module:f",)))
    assert (missing.status, missing.declined) == (Status.ABSENT, False)
    assert missing.reason == "no_such_module:f needs no_such_module, which is not installed: pip install no_such_module"


# --- fewer bits -------------------------------------------------------------------------------------------------------


def test_results_in_fewer_bits_are_judged_by_signal_to_noise() -> None:
    value = np.array([1.0, -2.0, 3.0, np.inf], np.float32)
    wanted = [expect(value, value.astype(np.float64))]
    noisy = value * np.float32(1.01)
    assert judge_by_signal([noisy], wanted, 39.0).passed
    verdict = judge_by_signal([noisy], wanted, 41.0)
    assert not verdict.passed
    assert verdict.detail.startswith("output 0 has 40.0 dB of signal to noise, the floor is 41 dB; ")
    assert verdict.metrics is not None
    assert 0.8 < verdict.metrics.headroom < 1.0
    lost = np.array([1.0, -2.0, 3.0, 9.0], np.float32)
    assert not judge_by_signal([lost], wanted, 1.0).passed
    assert not judge_by_signal([noisy.astype(np.float16)], wanted, 1.0).passed
    assert not judge_by_signal([noisy, noisy], wanted, 1.0).passed


def test_each_output_is_judged_and_named_by_its_number() -> None:
    value, places = np.linspace(1, 2, 8, dtype=np.float32), np.arange(8)
    wanted = [expect(value, value.astype(np.float64)), expect(places, places.astype(np.float64))]
    assert judge_by_signal([value, places], wanted, 39.0).passed
    verdict = judge_by_signal([value, places[::-1].copy()], wanted, 39.0)
    assert (verdict.passed, verdict.detail[:8]) == (False, "output 1")
    assert verdict.metrics is not None
    assert verdict.metrics.output == 1


def test_a_scalar_is_judged_by_signal_to_noise_too() -> None:
    wanted = [expect(np.array(2.0, np.float32), np.array(2.0))]
    assert judge_by_signal([np.array(2.02, np.float32)], wanted, 39.0).passed
    assert judge_by_signal([np.array(2.02, np.float32)], wanted, 41.0).detail == (
        "output 0 has 40.0 dB of signal to noise, the floor is 41 dB; the largest error is at (): runtime 2.01999998, "
        "torch 2"
    )


def test_a_floor_that_is_missed_by_little_is_a_question_of_precision() -> None:
    def noisier(by: float) -> Callable[[onnx.ModelProto], onnx.ModelProto]:
        def apply(given: onnx.ModelProto) -> onnx.ModelProto:
            node = helper.make_node("Mul", ["e", "w"], ["y"])
            inner = helper.make_node("Elu", ["x"], ["e"])
            made = model([inner, node], 18, ("batch", 3), weights={"w": np.full(1, 1 + by, np.float32)})
            return onnx.load_from_string(made)

        return apply

    close, far = run(named("bits", noisier(0.02), 40.0)), run(named("bits", noisier(0.5), 40.0))
    assert (close.status, close.blame) == (Status.FAILED, Blame.PRECISION)
    assert (far.status, far.blame) == (Status.FAILED, Blame.TRANSFORMATION)
