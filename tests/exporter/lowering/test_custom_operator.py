"""A custom operator, the documentation's `Foo`: lowered, left to torch, or a function of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from torch import nn

import onnx_parity
from onnx_parity.exporter.symbolic_helper import parse_args
from tests.exporter.subjects import FooModel, assert_agrees

X = torch.linspace(-2, 2, 6).reshape(2, 3)

pytestmark = pytest.mark.usefixtures("registry_as_it_was", "custom_operator")


@parse_args("v", "v", "f", "i")
def symbolic_foo_forward(g: Any, input1: Any, input2: Any, attr1: float, attr2: int) -> Any:
    return g.op("Foo", input1, input2, attr1_f=attr1, attr2_i=attr2)


class Foo(OpRun):
    op_domain = "custom_ops"

    def _run(self, a: Any, b: Any, attr1: float = 0.0, attr2: int = 0) -> tuple[Any]:
        return ((a * np.float32(attr1) + b * np.float32(attr2)).astype(np.float32),)


def test_the_documentation_s_custom_operator() -> None:
    onnx_parity.register_custom_op_symbolic("custom_ops::foo_forward", symbolic_foo_forward, 9)
    model = FooModel(0.5, 3)
    program = onnx_parity.export(model, (X, X + 1), opset_version=9)
    (node,) = program.model_proto.graph.node
    assert (node.domain, node.op_type) == ("custom_ops", "Foo")
    assert {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} == {"attr1": 0.5, "attr2": 3}
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    session = ReferenceEvaluator(proto, new_ops=[Foo])
    (got,) = session.run(None, {"input1": X.numpy(), "input2": (X + 1).numpy()})
    torch.testing.assert_close(torch.from_numpy(got), model(X, X + 1))
    onnx_parity.unregister_custom_op_symbolic("custom_ops::foo_forward", 9)
    with pytest.raises(onnx_parity.UnsupportedOperatorsError):
        onnx_parity.export(model, (X, X + 1), opset_version=9)


def test_the_documentation_s_custom_operator_in_onnxruntime() -> None:
    extensions = pytest.importorskip("onnxruntime_extensions")
    import onnxruntime

    @parse_args("v", "v", "f", "i")
    def symbolic(g: Any, input1: Any, input2: Any, attr1: float, attr2: int) -> Any:
        return g.op("ai.onnx.contrib::Foo", input1, input2, attr1_f=attr1, attr2_i=attr2)

    kinds = extensions.PyCustomOpDef

    @extensions.onnx_op(  # type: ignore[untyped-decorator]
        op_type="Foo",
        inputs=[kinds.dt_float, kinds.dt_float],
        outputs=[kinds.dt_float],
        attrs={"attr1": kinds.dt_float, "attr2": kinds.dt_int64},
    )
    def foo(a: Any, b: Any, attr1: float, attr2: int) -> Any:
        return a * np.float32(attr1) + b * np.float32(attr2)

    def with_extensions(model: str | bytes) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(extensions.get_library_path())
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    onnx_parity.register_custom_op_symbolic("custom_ops::foo_forward", symbolic, 9)
    model = FooModel(0.5, 3)
    program = onnx_parity.export(model, (X, X + 1), opset_version=9)
    program.initialize_inference_session(with_extensions)
    assert_agrees(program, model, X, X + 1)


def test_the_documentation_s_custom_operator_as_a_function_of_the_model() -> None:
    @onnx_parity.local_function("custom_ops::Foo")
    def foo(g: Any, a: Any, b: Any, attr1: float, attr2: int) -> Any:
        return g.op("Add", g.op("Mul", a, attr1), g.op("Mul", b, attr2))

    onnx_parity.register_custom_op_symbolic("custom_ops::foo_forward", foo, 9)
    model = nn.Sequential(FooModel(0.5, 3))
    program = onnx_parity.export(model[0], (X, X + 1))
    (node,) = program.model_proto.graph.node
    assert (node.domain, node.op_type, len(node.attribute)) == ("custom_ops", "Foo", 0)
    onnx.checker.check_model(program.model_proto, full_check=True)
    program.verify()
    with pytest.raises(
        onnx_parity.UnsupportedOperatorsError,
        match=r"IR version 8 on, which is that of opset 15 \(possible from opset 15\)",
    ):
        onnx_parity.export(model[0], (X, X + 1), opset_version=14)


@pytest.mark.parametrize("runtime", ["onnx.reference", "onnxruntime"])
def test_the_documentation_s_custom_operator_left_to_torch(runtime: str) -> None:
    style = onnx_parity.OperatorExportTypes.ONNX_ATEN_FALLBACK
    model = FooModel(0.1, 3)
    program = onnx_parity.export(model, (X, X + 1), opset_version=9, operator_export_type=style)
    (node,) = program.model.graph
    assert node.attributes["operator"].as_string() == "custom_ops::foo_forward"
    if runtime == "onnx.reference":
        result = program.call_reference(X, X + 1)
    else:
        pytest.importorskip("onnxruntime_extensions")
        result = program(X, X + 1)
    torch.testing.assert_close(result, model(X, X + 1))


def test_functions_that_do_the_same_are_one_and_others_have_numbers() -> None:
    @onnx_parity.local_function("custom_ops::Foo")
    def foo(g: Any, a: Any, b: Any, attr1: float, attr2: int) -> Any:
        return g.op("Add", g.op("Mul", a, attr1), g.op("Mul", b, attr2))

    onnx_parity.register_custom_op_symbolic("custom_ops::foo_forward", foo, 9)
    half, third = FooModel(0.5, 3), FooModel(0.25, 3)

    def program(x: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor = half(x, x + 1) + half(x + 2, x) + third(x, x)
        return total

    exported = onnx_parity.export(program, X, opset_version=17)
    assert [function.name for function in exported.model.functions.values()] == ["Foo", "Foo_1"]
    assert [node.op_type for node in exported.model.graph if node.domain] == ["Foo", "Foo", "Foo_1"]
    exported.verify()
    assert "custom_ops::Foo_1(%a, %b) {" in str(exported)


def test_dynamic_sizes_within_a_function() -> None:
    @onnx_parity.local_function("mine::Total")
    def total(g: Any, x: Any) -> Any:
        return g.cast(g.squeeze(g.ints([x.sizes[0]]), [0]), torch.float32)

    @onnx_parity.lowering("aten::sum")
    def lower_sum(g: Any, self: Any, dtype: Any = None) -> Any:
        return total(g, self)

    exported = onnx_parity.export(torch.sum, torch.ones(4), input_names=["x"], dynamic_axes={"x": [0]})
    assert exported(torch.ones(9)) == 9


def test_sizes_that_a_function_cannot_know() -> None:
    @onnx_parity.local_function("mine::Rows")
    def rows(g: Any, x: Any, size: Any) -> Any:
        return g.cast(g.squeeze(g.ints([size]), [0]), torch.float32)

    @onnx_parity.lowering("aten::sum")
    def lower_sum(g: Any, self: Any, dtype: Any = None) -> Any:
        return rows(g, g.const(1.0), self.sizes[0])

    with pytest.raises(
        onnx_parity.UnsupportedOperatorsError, match="is not that of an input of the local function: read it with"
    ):
        onnx_parity.export(torch.sum, torch.ones(4), input_names=["x"], dynamic_axes={"x": [0]})


def test_functions_of_onnx_with_too_few_attributes() -> None:
    class Script:
        def to_function_proto(self) -> onnx.FunctionProto:
            nodes = [onnx.helper.make_node("Add", ["a", "b"], ["out"])]
            return onnx.helper.make_function(
                "mine", "Foo", ["a", "b"], ["out"], nodes, [onnx.helper.make_opsetid("", 18)]
            )

    with pytest.raises(onnx_parity.LoweringError, match="mine::Foo has 0 attributes, but got 2: give it one for each"):
        onnx_parity.export(FooModel(1.0, 1), (X, X), custom_translation_table={"custom_ops::foo_forward": Script()})
