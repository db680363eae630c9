"""ONNX operators that a program calls by name, with this package's functions and with torch.onnx's."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch

import onnx_parity

X = torch.linspace(-2, 2, 6).reshape(2, 3)


def test_an_operator_of_onnx_is_in_the_model_and_computed_in_torch() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return onnx_parity.ops.symbolic("HardSwish", (x + 1,), dtype=x.dtype, shape=x.shape) * 2

    exported = onnx_parity.export(program, X, input_names=["x"], dynamic_axes={"x": {0: "batch"}}, verify=True)
    assert [node.op_type for node in exported.model.graph] == ["Add", "HardSwish", "Mul"]
    torch.testing.assert_close(program(X), torch.nn.functional.hardswish(X + 1) * 2)
    assert str(exported.model.graph.outputs[0].shape) == "[batch,3]"


def test_every_kind_of_attribute_several_outputs_and_a_domain_of_its_own() -> None:
    attributes = {"i": 1, "f": 0.1, "s": "text", "b": True, "is": [1, 2], "fs": (0.5, 1), "ss": ["a", "b"]}

    def program(x: torch.Tensor) -> Any:
        first, second = onnx_parity.ops.symbolic_multi_out(
            "mine::Many",
            (x, None, x + 1),
            attributes,
            dtypes=(torch.int64, torch.float32),
            shapes=((x.shape[0],), (4, 5)),
            version=3,
            metadata_props={"who": "test"},
        )
        return first + 1, second.relu()

    proto = onnx_parity.export(program, X).model_proto
    node = next(node for node in proto.graph.node if node.op_type == "Many")
    read = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert read["f"] == pytest.approx(0.1) and {**read, "f": 0.1} == {
        "i": 1, "f": 0.1, "s": b"text", "b": 1, "is": [1, 2], "fs": [0.5, 1.0], "ss": [b"a", b"b"],
    }  # fmt: skip
    assert list(node.input)[:2] == ["x", ""] and node.metadata_props[0].value == "test"
    assert {entry.domain: entry.version for entry in proto.opset_import}["mine"] == 3
    assert [len(value.type.tensor_type.shape.dim) for value in proto.graph.output] == [1, 2]


def test_torch_onnx_ops_symbolic() -> None:
    import torch.onnx

    def program(x: torch.Tensor) -> Any:
        one = torch.onnx.ops.symbolic(
            "mine::One", (x,), {"a": [1, 2], "s": "t"}, dtype=x.dtype, shape=x.shape, version=2
        )
        two = torch.onnx.ops.symbolic_multi_out(
            "mine::Two", (one,), {"f": 0.5}, dtypes=(x.dtype, torch.int64), shapes=(x.shape, (2,)), version=2
        )
        return two[0] + 1, two[1]

    model = onnx_parity.export(program, X).model
    assert [node.op_type for node in model.graph] == ["One", "Two", "Add"]
    assert list(model.graph[0].attributes["a"].as_ints()) == [1, 2] and model.graph.opset_imports["mine"] == 2
    assert [value.dtype.name for value in model.graph.outputs if value.dtype] == ["FLOAT", "INT64"]


def test_an_operator_of_a_later_opset_is_refused() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return onnx_parity.ops.symbolic("Gelu", (x,), dtype=x.dtype, shape=x.shape, version=20)

    with pytest.raises(onnx_parity.UnsupportedOperatorsError, match="the program asks for Gelu of opset 20") as caught:
        onnx_parity.export(program, X, opset_version=18)
    assert caught.value.refusals[0].since == 20
    onnx_parity.export(program, X, opset_version=20, verify=True)


def test_what_is_not_possible() -> None:
    with pytest.raises(NotImplementedError) as refused:
        onnx_parity.ops.symbolic("mine::Foo", (X,), dtype=X.dtype, shape=X.shape)
    assert str(refused.value) == (
        "mine::Foo is not an operator of ONNX, so only the runtime of the model can compute it: call it where "
        "onnx_parity.is_in_onnx_export() is true, and an equivalent in torch elsewhere"
    )
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.ops.symbolic("Relu", (X,), {"t": torch.ones(1)}, dtype=X.dtype, shape=X.shape)
    assert str(caught.value) == (
        "the attribute 't' of Relu is tensor([1.]): give an int, a float, a string, a bool, or a list of them"
    )
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.ops.symbolic_multi_out("Relu", (X,), dtypes=(X.dtype,), shapes=())
    assert str(caught.value) == "Relu got 1 dtypes and 0 shapes: give one of each for every output"
