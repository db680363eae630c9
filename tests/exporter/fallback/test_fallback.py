"""Operators of torch in the graph: encoded, decoded, and executed by torch in both runtimes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch

import onnx_parity
from onnx_parity.exporter import OperatorExportTypes
from onnx_parity.exporter.fallback.encoding import decoded, encoded
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload
from tests.exporter.subjects import Classifier, images

INTS = torch.arange(1, 13).reshape(3, 4)
FLOATS = torch.linspace(-2, 2, 12).reshape(3, 4)


def mixed(x: torch.Tensor) -> Any:
    """Operators that ONNX lacks among what it can say."""
    values, where = _lacking(x).cummax(1)
    return values * 2, where, torch._dirichlet_grad(x.abs(), x.abs() + 1, x.abs() + 2)


def _lacking(x: torch.Tensor) -> torch.Tensor:
    return torch._standard_gamma_grad(x.abs() + 1, x.abs() + 2)


def _gradients_of_maxima(x: torch.Tensor) -> torch.Tensor:
    where = torch.zeros(1, 1, 1, dtype=torch.int64)
    result: torch.Tensor = torch.ops.aten.adaptive_max_pool2d_backward(x[None, :1, :1], x[None], where)
    return result


def many_kinds(x: torch.Tensor) -> Any:
    """Arguments of every kind: numbers, lists, dtypes, booleans, lists of tensors, what is left out."""
    y = torch.clamp(x, max=0.1).to(torch.float64)
    parts = torch.split(y, [1, 3], dim=1)
    filled = torch.full((2, 3), True), torch.where(x > 0, x, 0.3)
    picked = x[:, torch.tensor([0, 2])]
    return torch.cat(parts, 1), parts[1].sum((0, 1), keepdim=True), filled, torch.quantile(y, 0.1), picked


@pytest.fixture(params=["onnx.reference", "onnxruntime"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Calls a program in a runtime."""
    if request.param == "onnx.reference":
        return lambda program, *args: program.call_reference(*args)
    pytest.importorskip("onnxruntime_extensions")
    return lambda program, *args: program(*args)


@pytest.mark.parametrize("opset", [9, 18])
def test_only_operators_that_onnx_lacks_fall_back(run: Callable[..., Any], opset: int) -> None:
    style = OperatorExportTypes.ONNX_ATEN_FALLBACK
    program = onnx_parity.export(mixed, FLOATS, opset_version=opset, operator_export_type=style)
    operators = [
        node.attributes["operator"].as_string() for node in program.model.graph if node.domain == "org.pytorch.aten"
    ]
    assert "_standard_gamma_grad" in operators and "_dirichlet_grad" in operators
    assert {node.op_type for node in program.model.graph if not node.domain} >= {"Add", "Mul"}
    onnx.checker.check_model(program.model_proto, full_check=True)
    torch.testing.assert_close(run(program, FLOATS), mixed(FLOATS))
    torch.testing.assert_close(run(program, FLOATS.flip(1)), mixed(FLOATS.flip(1)))


def test_everything_as_torch_s_own(run: Callable[..., Any]) -> None:
    program = onnx_parity.export(many_kinds, FLOATS, operator_export_type=OperatorExportTypes.ONNX_ATEN)
    assert {node.domain for node in program.model.graph} == {"org.pytorch.aten"}
    torch.testing.assert_close(run(program, FLOATS + 0.01), many_kinds(FLOATS + 0.01))


def test_a_model_as_torch_s_own(run: Callable[..., Any]) -> None:
    model = Classifier().eval()
    program = onnx_parity.export(model, images(), aten=True)
    torch.testing.assert_close(run(program, images()), model(images()).detach())


def test_dynamic_sizes_are_inputs(run: Callable[..., Any]) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.gcd(x.reshape(-1), 6 * torch.ones(x.shape[0] * 4, dtype=torch.int64))

    exported = onnx_parity.export(program, INTS, input_names=["x"], dynamic_axes={"x": [0]}, aten=True)
    for size in (1, 3, 5):
        x = torch.arange(size * 4).reshape(size, 4)
        assert torch.equal(run(exported, x), program(x))


def test_verification_runs_it() -> None:
    pytest.importorskip("onnxruntime_extensions")
    onnx_parity.export(mixed, FLOATS, operator_export_type=OperatorExportTypes.ONNX_ATEN_FALLBACK, verify=True)


def test_arguments_come_back_as_they_were() -> None:
    graph = onnx_parity.capture_program(many_kinds, FLOATS).graph
    compared = 0
    for node in graph.nodes:
        tensors, attributes = encoded(node, lambda value: value, list)
        plain = {
            name[:-2]: list(item) if isinstance(item, (list, tuple)) else item for name, item in attributes.items()
        }
        assert isinstance(node.op, OpOverload)
        back = decoded(node.op, plain, tensors)
        for name, argument in back.items():
            assert argument == node.arguments[name], (node.op, name)
            compared += 1
    assert compared > 20


def test_fall_through_keeps_the_operator_s_own_name() -> None:
    with torch.library._scoped_library("parity_fall", "DEF") as library:
        library.define("through(Tensor x, float[] scales, str how) -> (Tensor, Tensor)")
        library.impl("through", lambda x, scales, how: (x * 1, x * 2), "CompositeExplicitAutograd")
        torch.library.register_fake("parity_fall::through", lambda x, *_: (x.clone(), x.clone()), lib=library)
        program = onnx_parity.export(
            lambda x: torch.ops.parity_fall.through(x.relu(), [1.0, 0.1], "fast"),
            FLOATS,
            operator_export_type=OperatorExportTypes.ONNX_FALLTHROUGH,
            custom_opsets={"parity_fall": 3},
        )
    relu, through = program.model.graph
    assert (relu.domain, through.domain, through.op_type) == ("", "parity_fall", "through")
    assert through.attributes["how"].as_string() == "fast" and len(through.outputs) == 2
    assert through.attributes["scales"].as_tensor().numpy().tolist() == [1.0, 0.1]
    assert program.model.graph.opset_imports["parity_fall"] == 3


def test_raw_is_what_was_recorded() -> None:
    program = onnx_parity.export(lambda x: x.add(1.5).t(), FLOATS, export_raw_ir=True)
    lines = str(program).splitlines()
    assert lines[2].startswith(
        "  %add : Float(3, 4) = aten::add[overload_name=Tensor, other=1.5, inputs=['self']](%x) # "
    )
    assert lines[3].startswith("  %output : Float(4, 3) = aten::t[inputs=['self']](%add) # ")


def test_without_the_extensions_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    program = onnx_parity.export(mixed, FLOATS, operator_export_type=OperatorExportTypes.ONNX_ATEN_FALLBACK)
    monkeypatch.setitem(sys.modules, "onnxruntime_extensions", None)
    with pytest.raises(onnx_parity.ExportError) as caught:
        program(FLOATS)
    assert str(caught.value) == (
        "the model calls operators of torch, for which onnxruntime needs onnxruntime-extensions, which is not "
        "installed: pip install onnxruntime-extensions, or run the model with call_reference"
    )


def test_dtypes_that_would_end_the_process_are_refused() -> None:
    pytest.importorskip("onnxruntime_extensions")
    program = onnx_parity.export(torch.relu, FLOATS.half(), aten=True)
    torch.testing.assert_close(program.call_reference(FLOATS.half()), FLOATS.half().relu())
    with pytest.raises(onnx_parity.ExportError) as caught:
        program(FLOATS.half())
    assert str(caught.value) == (
        "node_ATen calls an operator of torch with a tensor of FLOAT16, which onnxruntime-extensions does not "
        "pass to Python: run the model with call_reference"
    )


def test_operators_that_this_torch_does_not_have() -> None:
    with torch.library._scoped_library("parity_gone", "DEF") as library:
        library.define("gone(Tensor x) -> Tensor")
        torch.library.register_fake("parity_gone::gone", torch.empty_like, lib=library)
        program = onnx_parity.export(torch.ops.parity_gone.gone, FLOATS, aten=True)
    vars(torch.ops.parity_gone).pop("gone", None)
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program.call_reference(FLOATS)
    assert str(caught.value) == (
        "the model calls parity_gone::gone, which is not defined: import the module that defines it"
    )


def test_what_an_attribute_cannot_hold_is_refused() -> None:
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def symbolic(g: Any, x: Any) -> Any:
            return g.op("Add", x, x)

    with pytest.raises(onnx_parity.UnsupportedOperatorsError, match="an ONNX attribute cannot be a FunctionCall"):
        onnx_parity.export(lambda x: Own.apply(x) + 1, FLOATS, aten=True)  # type: ignore[no-untyped-call]


def test_within_branches_and_loops(run: Callable[..., Any]) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.cond(
            x.sum() > 0,
            _gradients_of_maxima,
            lambda x: _gradients_of_maxima(-x),
            (x,),
        )
        return result + 1

    exported = onnx_parity.export(program, FLOATS, operator_export_type=OperatorExportTypes.ONNX_ATEN_FALLBACK)
    for x in (FLOATS + 1, FLOATS - 1):
        torch.testing.assert_close(run(exported, x), program(x))
