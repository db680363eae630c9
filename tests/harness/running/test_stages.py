"""The stages: each fault fails its cell at the right stage, with the right cause."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper

from onnx_parity.harness.axes import Device, Dtype, Shapes
from onnx_parity.harness.case import floats, given, op
from onnx_parity.harness.case import model as declare_model
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.record import Blame, Stage, Status
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.subjects.exporter_interface import Request
from onnx_parity.harness.subjects.exporters import Parity, ParityCapture
from onnx_parity.harness.subjects.runtimes import RUNTIMES
from tests.harness.fakes import FakeExporter, LyingRuntime, RefusalError, cell, model, one_node, tensors

_ELU = op(F.elu, floats(2, 3), dynamic={"x": {0: "batch"}})
_SCALED = op(lambda x: x * x.sum(), floats(2, 3))


def run(make: Callable[[int, Request], bytes], it: Cell | None = None) -> Outcome:
    return Bench(0, exporters={"parity": FakeExporter(make)}).run(it or cell(_ELU))


def elu(opset: int, request: Request) -> bytes:
    return one_node("Elu", opset, ("batch", 3) if request.dynamic else (2, 3))


def test_a_right_export_passes_every_stage() -> None:
    outcome = run(elu)
    assert (outcome.status, outcome.stage, outcome.reason) == (Status.PASSED, Stage.RERUN_VALUES, "")
    assert outcome.aten == ("aten::elu",)
    assert [(use.op, use.since_version, use.count) for use in outcome.onnx] == [("Elu", 6, 1)]
    assert outcome.nodes == 1
    assert outcome.metrics is not None
    assert outcome.metrics.headroom > 1.0
    assert list(outcome.seconds) == [
        "build", "reference", "export", "check", "load", "run", "compare", "rerun_values"
    ]  # fmt: skip


def test_every_output_is_compared() -> None:
    """The first output is right, and the second is not."""

    def make(opset: int, request: Request) -> bytes:
        nodes = [helper.make_node("Elu", ["x"], ["y"]), helper.make_node("Relu", ["x"], ["z"])]
        proto = onnx.load_model_from_string(model(nodes, opset))
        proto.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, (2, 3)))
        return bytes(proto.SerializeToString())

    outcome = run(make, cell(op(lambda x: (F.elu(x), x), floats(2, 3))))
    assert (outcome.status, outcome.stage) == (Status.FAILED, Stage.COMPARE)
    assert outcome.reason.startswith("output 1 at (")


def test_a_dynamic_cell_is_run_again_at_other_sizes() -> None:
    outcome = run(elu, cell(_ELU, shapes=Shapes.DYNAMIC))
    assert outcome.status is Status.PASSED
    assert "rerun_sizes" in outcome.seconds


def test_work_is_shared_by_the_cells_of_a_case() -> None:
    fake = FakeExporter(elu)
    bench = Bench(0, exporters={"parity": fake})
    case = next(_ELU.cases("elu"))
    spent: list[set[str]] = []
    for opset in (9, 13, 18):
        at = cell(_ELU, opset=opset)
        outcome = bench.run(Cell(case, at.dtype, opset, at.device, at.capture, at.exporter, at.runtime, at.shapes))
        assert outcome.status is Status.PASSED
        spent.append(set(outcome.seconds))
    assert fake.captures == 1
    assert {"build", "reference"} <= spent[0]
    assert not {"build", "reference"} & (spent[1] | spent[2])


def test_stages_are_announced_as_they_are_entered() -> None:
    entered: list[Stage] = []
    Bench(0, exporters={"parity": FakeExporter(elu)}, entered=entered.append).run(cell(_ELU, shapes=Shapes.DYNAMIC))
    assert entered == [stage for stage in Stage if stage is not Stage.TRANSFORM]


def test_a_case_that_torch_cannot_run_is_the_cases_fault() -> None:
    outcome = run(elu, cell(op(F.glu, floats(2, 3))))
    assert (outcome.status, outcome.stage, outcome.blame) == (Status.FAILED, Stage.REFERENCE, Blame.CASE)
    assert outcome.reason.startswith("RuntimeError: Halving dimension must be even")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NotImplementedError, "\"picky\" not implemented for 'Half'"),
        (RuntimeError, "linalg.inv: Low precision dtypes not supported. Got Half"),
        (RuntimeError, "Input dtypes must be the same, got: input float, batch1: half, batch2: half"),
        (RuntimeError, "expected scalar type Half but found Float"),
        (AssertionError, "Expecting input to have dtype torch.float32, but got dtype: torch.float16"),
        (RuntimeError, "quantile() input tensor must be either float or double dtype"),
        (RuntimeError, "linalg.vander supports floating point, complex, and integer tensors, but got Half"),
        (RuntimeError, "linalg.pinv(Half{[3, 3]}): expected a tensor of float, double, cfloat or cdouble types"),
    ],
)
def test_a_dtype_beyond_those_declared_that_torch_has_no_kernel_of_is_absent(error: type[Exception], text: str) -> None:
    def picky(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is torch.float16:
            raise error(text)
        return x * 2

    outcome = run(elu, cell(op(picky, floats(2, 3)), dtype=Dtype.FLOAT16))
    assert (outcome.status, outcome.stage) == (Status.ABSENT, Stage.REFERENCE)
    assert outcome.reason == f"torch has no kernel: {text}"
    declared = op(picky, floats(2, 3), dtypes=[torch.float16])
    assert run(elu, cell(declared, dtype=Dtype.FLOAT16)).status is Status.FAILED


def test_errors_may_contain_characters_that_utf8_cannot_encode() -> None:
    """Names of files that are no UTF-8 come so. A record that cannot be written would be a crash of the cell."""

    def raises(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("\x1b[31mno\x1b[0m \ud800")

    outcome = run(elu, cell(op(raises, floats(2))))
    assert outcome.reason == r"ValueError: no \ud800"
    assert "".join(outcome.details).encode()


def test_a_case_that_cannot_be_built_is_the_cases_fault() -> None:
    outcome = run(elu, cell(op(torch.nn.Linear, floats(2, 3), in_feature=3)))
    assert (outcome.status, outcome.stage, outcome.blame) == (Status.FAILED, Stage.BUILD, Blame.CASE)
    assert "in_feature" in outcome.reason


def test_a_package_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package_of_halves.py").write_text("import package_of_nobody\n")
    monkeypatch.syspath_prepend(tmp_path)
    outcome = Bench(0).run(
        cell(declare_model(lambda: importlib.import_module("package_of_halves").Net(), floats(2, 3)))
    )
    assert (outcome.status, outcome.stage) == (Status.FAILED, Stage.BUILD)
    assert outcome.reason == "ModuleNotFoundError: No module named 'package_of_nobody'"
    assert outcome.details[-1] == "package_of_halves cannot be imported here, so the case cannot be built"
    outcome = Bench(0).run(cell(op(lambda x: importlib.import_module("package_of_nobody"), floats(2, 3))))
    assert outcome.details[-1] == "package_of_nobody cannot be imported here, so the case cannot be built"


def test_a_refusal_is_unsupported_and_an_error_is_a_failure() -> None:
    def refuse(opset: int, request: Request) -> bytes:
        raise RefusalError("aten::elu: ONNX cannot say it")

    def fail(opset: int, request: Request) -> bytes:
        raise KeyError("elu")

    outcome = run(refuse)
    assert (outcome.status, outcome.stage) == (Status.UNSUPPORTED, Stage.EXPORT)
    assert outcome.reason == "aten::elu: ONNX cannot say it"
    outcome = run(fail)
    assert (outcome.status, outcome.stage, outcome.blame) == (Status.FAILED, Stage.EXPORT, Blame.EXPORTER)
    assert outcome.reason == "KeyError: 'elu'"
    assert any("in fail: raise KeyError" in line for line in outcome.details)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda opset, request: one_node("Elu", opset - 1),
            "DeliveryError: opset 18 was requested, but opset 17 was delivered",
        ),
        (
            lambda opset, request: one_node("Elu", opset, ("batch", 3)),
            "DeliveryError: input x, axis 0: size 2 was exported, but the model has 'batch'",
        ),
        (
            lambda opset, request: one_node("Elu", opset, (2, 3, 1)),
            "DeliveryError: input x has rank 2, but rank 3 in the model",
        ),
        (
            lambda opset, request: one_node("Elu", opset).replace(b"x", b"z"),
            "DeliveryError: inputs x were requested, but z were delivered",
        ),
        (lambda opset, request: one_node("NoSuch", opset), "ValidationError: No Op registered for NoSuch"),
        (lambda opset, request: b"not a model", "ValueError: Unable to parse proto from the given bytes"),
    ],
    ids=["opset", "symbolic", "rank", "name", "operator", "bytes"],
)
def test_a_model_that_was_not_requested_fails_the_check(make: Callable[[int, Request], bytes], reason: str) -> None:
    outcome = run(make)
    assert (outcome.status, outcome.stage, outcome.blame) == (Status.FAILED, Stage.CHECK, Blame.EXPORTER)
    assert outcome.reason.startswith(reason)


@pytest.mark.parametrize(("opset", "fails"), [(9, False), (10, True), (17, True), (18, False)])
def test_more_nodes_than_the_declaration_allows_fail_the_check(opset: int, fails: bool) -> None:
    small = op(F.elu, floats(2, 3), nodes={10: 1, 18: 2})

    def twice(opset: int, request: Request) -> bytes:
        nodes = [helper.make_node("Identity", ["x"], ["same"]), helper.make_node("Elu", ["same"], ["y"])]
        return model(nodes, opset, (2, 3))

    outcome = run(twice, cell(small, opset=opset))
    assert (outcome.status is Status.FAILED, outcome.stage is Stage.CHECK) == (fails, fails)
    if fails:
        assert outcome.blame is Blame.EXPORTER
        assert outcome.reason == (
            f"DeliveryError: the declaration allows 1 node at opset {opset}, but the model has 2: Identity, Elu"
        )


def test_other_exporters_may_have_more_nodes() -> None:
    small = op(F.elu, floats(2, 3), nodes={7: 0})
    peer = {"other": FakeExporter(elu)}
    outcome = Bench(0, exporters=peer).run(dataclasses.replace(cell(small), exporter="other"))
    assert outcome.status is Status.PASSED


def test_a_frozen_dynamic_axis_fails_the_check() -> None:
    outcome = run(lambda opset, request: one_node("Elu", opset), cell(_ELU, shapes=Shapes.DYNAMIC))
    assert (outcome.status, outcome.stage) == (Status.FAILED, Stage.CHECK)
    assert outcome.reason == (
        "DeliveryError: input x, axis 0: 'batch' was requested as symbolic, but the model fixes it to 2"
    )


def test_a_size_that_is_baked_in_shows_at_other_sizes() -> None:
    def bake(opset: int, request: Request) -> bytes:
        nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("Elu", ["r"], ["y"])]
        shape = ("batch", 3) if request.dynamic else (2, 3)
        return model(nodes, opset, shape, weights={"shape": np.array([2, 3])})

    outcome = run(bake, cell(_ELU, shapes=Shapes.DYNAMIC))
    assert (outcome.status, outcome.stage) == (Status.FAILED, Stage.RERUN_SIZES)


def test_a_failure_at_other_sizes_is_reported_with_the_sizes() -> None:
    """onnx.reference runs the example too: asked about that, it would accuse the runtime."""

    def frozen(opset: int, request: Request) -> bytes:
        shape = np.array([2, 3])
        nodes = [helper.make_node("Reshape", ["x", "shape"], ["z"]), helper.make_node("Elu", ["z"], ["y"])]
        return model(nodes, opset, ("batch", 3), weights={"shape": shape})

    outcome = run(frozen, cell(_ELU, shapes=Shapes.DYNAMIC))
    assert (outcome.status, outcome.stage, outcome.blame) == (Status.FAILED, Stage.RERUN_SIZES, Blame.EXPORTER)
    assert outcome.reason.endswith(" (batch=1)")
    assert "onnx.reference cannot run it either, so the graph is wrong" in outcome.details


def test_what_is_wrong_for_an_empty_axis_alone_shows_at_size_0() -> None:
    def padded(opset: int, request: Request) -> bytes:
        nodes = [
            helper.make_node("Shape", ["x"], ["sizes"]),
            helper.make_node("Cast", ["sizes"], ["any"], to=TensorProto.BOOL),
            helper.make_node("Not", ["any"], ["none"]),
            helper.make_node("Cast", ["none"], ["after"], to=TensorProto.INT64),
            helper.make_node("Concat", ["before", "after"], ["pads"], axis=0),
            helper.make_node("Pad", ["x", "pads"], ["z"]),
            helper.make_node("Elu", ["z"], ["y"]),
        ]
        return model(nodes, opset, ("batch", 3), weights={"before": np.array([0, 0])})

    outcome = run(padded, cell(_ELU, shapes=Shapes.DYNAMIC, opset=18))
    assert (outcome.status, outcome.stage) == (Status.FAILED, Stage.RERUN_SIZES)
    assert outcome.reason.endswith(" (batch=0)")
    assert run(padded, cell(_ELU, shapes=Shapes.DYNAMIC, opset=13)).status is Status.PASSED


def test_an_empty_axis_that_torch_refuses_is_not_compared() -> None:
    largest = op(lambda x: x.amax(0) + F.elu(x), floats(2, 3), dynamic={"x": {0: "batch"}})
    outcome = Bench(0).run(cell(largest, shapes=Shapes.DYNAMIC, opset=18))
    assert (outcome.status, outcome.runtime) == (Status.PASSED, "onnxruntime")


def test_a_value_that_is_baked_in_shows_at_other_values() -> None:
    def bake(opset: int, request: Request) -> bytes:
        total = tensors(request.inputs)[0].sum().numpy()
        return model([helper.make_node("Mul", ["x", "total"], ["y"])], opset, weights={"total": total})

    outcome = run(bake, cell(_SCALED))
    assert (outcome.status, outcome.stage, outcome.blame) == (Status.FAILED, Stage.RERUN_VALUES, Blame.EXPORTER)
    assert outcome.reason.endswith("(other values)")


def test_a_nan_that_is_lost_shows() -> None:
    def without_nan(opset: int, request: Request) -> bytes:
        nodes = [
            helper.make_node("IsNaN", ["x"], ["lost"]),
            helper.make_node("Where", ["lost", "zero", "x"], ["kept"]),
            helper.make_node("Elu", ["kept"], ["y"]),
        ]
        return model(nodes, opset, weights={"zero": np.zeros((), np.float32)})

    outcome = run(without_nan, cell(op(F.elu, floats(2, 3)), opset=13))
    assert (outcome.status, outcome.stage) == (Status.FAILED, Stage.RERUN_VALUES)
    assert outcome.reason.endswith("(a NaN)")


def test_a_wrong_graph_is_the_exporters_fault() -> None:
    outcome = run(lambda opset, request: one_node("Elu", opset, alpha=0.5))
    assert (outcome.status, outcome.stage, outcome.blame) == (Status.FAILED, Stage.COMPARE, Blame.EXPORTER)
    assert outcome.details[1].endswith("onnx.reference agrees with onnxruntime, so the graph is wrong")
    assert outcome.details[1].startswith("operator: aten::elu, ")
    assert f"harness/running/test_stages.py:{_ELU.line}; " in outcome.details[1]
    assert outcome.metrics is not None
    assert outcome.metrics.headroom < 1.0


def test_a_wrong_runtime_is_the_runtimes_fault() -> None:
    lying = LyingRuntime(lambda output: output + np.float32(0.5))
    outcome = Bench(0, exporters={"parity": FakeExporter(elu)}, runtimes={"onnxruntime": lying}).run(cell(_ELU))
    assert (outcome.status, outcome.stage, outcome.blame) == (Status.FAILED, Stage.COMPARE, Blame.RUNTIME)


def test_an_error_of_the_size_of_rounding_is_a_question_of_precision() -> None:
    lying = LyingRuntime(lambda output: output * np.float32(1.00001))
    bench = Bench(0, exporters={"parity": FakeExporter(elu)}, runtimes={"onnx.reference": lying})
    outcome = bench.run(cell(_ELU, runtime="onnx.reference"))
    assert (outcome.status, outcome.stage, outcome.blame) == (Status.FAILED, Stage.COMPARE, Blame.PRECISION)
    assert outcome.details[1].endswith("onnxruntime agrees with torch, and the error is of the size of rounding")


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (lambda output: output.astype(np.float64), "output 0 is float64 from the runtime, float32 from torch"),
        (lambda output: output[:1], "output 0 has shape (1, 3) from the runtime, (2, 3) from torch"),
        (lambda output: output * np.float32("nan"), "output 0 at (0, 0): runtime nan"),
    ],
)
def test_outputs_of_another_kind_fail_the_comparison(
    lie: Callable[[np.ndarray[tuple[int, ...], np.dtype[np.float32]]], object], reason: str
) -> None:
    lying = LyingRuntime(lie)  # type: ignore[arg-type]
    outcome = Bench(0, exporters={"parity": FakeExporter(elu)}, runtimes={"onnxruntime": lying}).run(cell(_ELU))
    assert (outcome.status, outcome.stage) == (Status.FAILED, Stage.COMPARE)
    assert outcome.reason.startswith(reason)


def test_a_runtime_without_a_kernel_leaves_it_to_the_reference() -> None:
    def elu_of(opset: int, request: Request) -> bytes:
        node = helper.make_node("Elu", ["x"], ["y"])
        graph = helper.make_graph(
            [node],
            "half",
            [helper.make_tensor_value_info("x", TensorProto.BFLOAT16, (2, 3))],
            [helper.make_tensor_value_info("y", TensorProto.BFLOAT16, (2, 3))],
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        return bytes(proto.SerializeToString())

    outcome = run(elu_of, cell(_ELU, opset=22, dtype=Dtype.BFLOAT16))
    assert outcome.runtime == "onnx.reference"
    assert outcome.reason.startswith("run on onnx.reference: onnxruntime has no kernel: ")
    assert (outcome.status, outcome.stage) == (Status.PASSED, Stage.RERUN_VALUES)


def test_opsets_past_onnxruntime_run_on_the_reference() -> None:
    outcome = run(elu, cell(_ELU, opset=28, runtime="onnx.reference"))
    assert (outcome.status, outcome.runtime) == (Status.PASSED, "onnx.reference")


def test_cells_that_cannot_run_here_are_absent_with_the_reason() -> None:
    outcome = run(elu, cell(_ELU, opset=28))
    assert (outcome.status, outcome.reason) == (Status.ABSENT, "onnxruntime runs opsets 7 to 26")
    assert not outcome.seconds
    if reason := RUNTIMES["onnxruntime"].missing(Device.CUDA):
        outcome = run(elu, cell(_ELU, device=Device.CUDA))
        assert (outcome.status, outcome.reason) == (Status.ABSENT, reason)


def test_our_own_exporter_passes_at_the_first_and_the_last_opset() -> None:
    bench = Bench(0)
    for opset in (7, 26):
        outcome = bench.run(cell(_ELU, opset=opset, shapes=Shapes.DYNAMIC))
        assert (outcome.status, outcome.reason) == (Status.PASSED, "")
        assert outcome.aten == ("aten::elu",)


class _CarelessCapture(ParityCapture):
    """The bytes of the file of weights are turned around."""

    def deliver(self, opset: int, folder: Path | None) -> bytes | Path:
        delivered = super().deliver(opset, folder)
        if isinstance(delivered, Path):
            data = delivered.with_name("model.onnx.data")
            data.write_bytes(data.read_bytes()[::-1])
        return delivered


class _Careless(Parity):
    def capture(self, request: Request) -> ParityCapture:
        return _CarelessCapture(super().capture(request).recorded)


@pytest.mark.parametrize(("opset", "width", "status"), [(18, 20, "failed"), (17, 20, "passed"), (18, 4, "passed")])
def test_weights_beside_the_model_are_read_at_one_opset(opset: int, width: int, status: str) -> None:
    layer = op(
        lambda x, weight: x @ weight, floats(2, width), weight=given(torch.rand(width, width).tolist(), constant=True)
    )
    outcome = Bench(0, exporters={"parity": _Careless()}).run(cell(layer, opset=opset))
    assert outcome.status == status
