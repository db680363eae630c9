"""Models are encoded as onnx's own classes of messages encode them, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch

import onnx_parity
from onnx_parity.exporter.files import write
from onnx_parity.exporter.files.protobuf import NotEncoded, encode


def _of_onnx_ir(model: ir.Model) -> tuple[bytes, bytes]:
    proto = ir.serde.serialize_model(model)
    graph = proto.graph.SerializeToString(deterministic=True)
    proto.ClearField("graph")
    return proto.SerializeToString(deterministic=True), graph


def _branches(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x.sin() + torch.arange(3.0), lambda x: x.cos() - 1, (x,))


@torch.jit.script
def _sequences(x: torch.Tensor) -> list[torch.Tensor]:
    rows = []
    for index in range(x.shape[0]):
        if x[index].sum() > 0:
            rows.append(x[index] * 2)
    return rows


def _linear(x: torch.Tensor) -> Any:
    return torch.nn.functional.layer_norm(x, (3,), eps=1e-5).unflatten(1, (-1, 1)).transpose(0, 1)


_PROGRAMS: dict[str, Callable[..., Any]] = {"branches": _branches, "sequences": _sequences, "linear": _linear}


@pytest.mark.parametrize("opset", [11, 18, 23])
@pytest.mark.parametrize("program", _PROGRAMS.values(), ids=_PROGRAMS)
def test_exports_are_encoded_as_onnx_encodes_them(program: Callable[..., Any], opset: int) -> None:
    exported = onnx_parity.export(program, (torch.randn(4, 3),), opset_version=opset, dynamic_axes={"x": {0: "rows"}})
    assert encode(exported.model) == _of_onnx_ir(exported.model)


def _model(*nodes: ir.Node, **rest: Any) -> ir.Model:
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(["n", 300, None]))
    outputs = [output for node in nodes for output in node.outputs]
    return ir.Model(
        ir.Graph([x], outputs, nodes=nodes, name="g", opset_imports={"": 18, "own": 1}, **rest), ir_version=8
    )


def _node(*attributes: ir.Attr) -> ir.Node:
    return ir.Node("own", "Op", [None, None], attributes, num_outputs=1, name="node", overload="one")


_FLOATS = ir.tensor(np.linspace(0, 1, 200, dtype=np.float32).reshape(2, 100), name="floats", doc_string="some")
_INT4 = ir.tensor(np.array([1, 2, -3], dtype=np.int8), dtype=ir.DataType.INT4, name="int4")
_TYPE = ir.TypeAndShape(ir.OptionalType(ir.SequenceType(ir.TensorType(ir.DataType.INT64))), ir.Shape([2, "n"]))
_ATTRIBUTES = [
    ir.AttrInt64("least", -(2**63)),
    ir.AttrInt64("many", 2**63 - 1, doc_string="the most"),
    ir.AttrInt64s("axes", [0, 1, -1, 127, 128, 300]),
    ir.AttrInt64s("none", []),
    ir.AttrFloat32("alpha", 0.1),
    ir.AttrFloat32("infinity", float("inf")),
    ir.AttrFloat32s("scales", [1.0, 2.5, float("nan")]),
    ir.AttrString("mode", "n\u00e4chster"),
    ir.AttrStrings("modes", ["a", "", "b" * 200]),
    ir.AttrTensor("value", _FLOATS),
    ir.AttrTensor("packed", _INT4),
    ir.AttrTensor("texts", ir.StringTensor([b"one", b"two"], shape=ir.Shape([2]), name="texts")),
    ir.AttrTypeProto("type", _TYPE),
    ir.Attr("documented", ir.AttributeType.TYPE_PROTO, _TYPE, doc_string="a type"),
    ir.AttrGraph("body", _model(_node(ir.AttrInt64("i", 3))).graph),
]


@pytest.mark.parametrize("attribute", _ATTRIBUTES, ids=lambda attribute: attribute.name)
def test_attributes_are_encoded_as_onnx_encodes_them(attribute: ir.Attr) -> None:
    model = _model(_node(attribute))
    assert encode(model) == _of_onnx_ir(model)


def test_what_users_add_to_a_model_is_encoded() -> None:
    model = _model(_node(), _node(), doc_string="a graph", metadata_props={"b": "2", "a": "1"})
    first, second = model.graph
    model.producer_name, model.producer_version, model.domain = "someone", "1.0", "a.domain"
    model.model_version, model.doc_string = 300, "a model"
    model.metadata_props["key"] = "value" * 100
    first.doc_string, second.metadata_props["node"] = "first", "second"
    (x,), (y, z) = model.graph.inputs, model.graph.outputs
    x.doc_string, x.metadata_props["input"] = "the input", "x"
    y.type, y.shape = ir.SequenceType(ir.TensorType(ir.DataType.BFLOAT16)), ir.Shape([1, 2])
    z.type = ir.SparseTensorType(ir.DataType.DOUBLE)
    assert x.shape is not None
    x.shape.set_denotation(0, "DATA_BATCH")
    inner = ir.Value(name="inner", type=ir.TensorType(ir.DataType.BOOL))
    unknown, noted = ir.Value(name="unknown"), ir.Value(name="noted", doc_string="why", metadata_props={"k": "v"})
    for value in (inner, unknown, noted):
        model.graph.insert_after(first, ir.Node("", "Identity", [x], outputs=[value]))
    weight = ir.Value(name="weight", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2, 100]))
    weight.const_value = _FLOATS
    model.graph.register_initializer(weight)
    assert encode(model) == _of_onnx_ir(model)


def _with_function(model: ir.Model) -> None:
    given, result = ir.Value(name="given"), ir.Value(name="result")
    reference = ir.RefAttr("alpha", "of_function", ir.AttributeType.FLOAT)
    body = ir.Graph([given], [result], nodes=[ir.Node("", "Elu", [given], [reference], outputs=[result])])
    body.opset_imports[""] = 18
    function = ir.Function("own", "Op", "one", graph=body, attributes=[reference])
    model.functions[function.identifier()] = function


def _with_annotation(model: ir.Model) -> None:
    model.graph.inputs[0].meta["quant_parameter_tensor_names"] = {"SCALE_TENSOR": "scale"}


def _with_annotation_inside(model: ir.Model) -> None:
    added = ir.Node("", "Identity", model.graph.inputs, num_outputs=1)
    model.graph.append(added)
    added.outputs[0].name = "added"
    added.outputs[0].meta["quant_parameter_tensor_names"] = {"SCALE_TENSOR": "scale"}


def _with_denotation(model: ir.Model) -> None:
    model.graph.inputs[0].type = ir.TensorType(ir.DataType.FLOAT, denotation="IMAGE")


def _with_message(model: ir.Model) -> None:
    message = onnx.numpy_helper.from_array(np.arange(3), "numbers")
    model.graph.append(
        ir.Node("", "Constant", [], [ir.AttrTensor("value", ir.serde.deserialize_tensor(message))], num_outputs=1)
    )


def _with_graphs(model: ir.Model) -> None:
    graphs = [_model(_node()).graph, _model(_node(ir.AttrInt64("i", 1))).graph]
    model.graph.append(ir.Node("own", "Op", [], [ir.AttrGraphs("graphs", graphs)], num_outputs=1))


def _with_more_than_a_float(model: ir.Model) -> None:
    model.graph.append(ir.Node("own", "Op", [], [ir.AttrFloat32("alpha", 1e300)], num_outputs=1))


_RARE = [
    _with_function,
    _with_annotation,
    _with_annotation_inside,
    _with_denotation,
    _with_message,
    _with_graphs,
    _with_more_than_a_float,
]


@pytest.mark.parametrize("change", _RARE)
def test_what_is_rare_is_left_to_onnx_ir(change: Callable[[ir.Model], None]) -> None:
    model = _model(_node())
    change(model)
    with pytest.raises(NotEncoded):
        encode(model)
    assert onnx.load_model_from_string(write.serialize(model)) == ir.to_proto(model)


@pytest.mark.parametrize(
    "attribute", [ir.AttrInt64("i", 2**63), ir.AttrString("s", "\ud800"), ir.AttrInt64s("is", [0, -(2**63) - 1])]
)
def test_values_that_the_format_does_not_have_are_refused(attribute: ir.Attr) -> None:
    with pytest.raises((ir.serde.SerdeError, ValueError, UnicodeEncodeError)):
        write.serialize(_model(_node(attribute)))


def _with_version(version: object) -> ir.Model:
    model = _model(_node())
    model.opset_imports["more"] = version  # type: ignore[assignment]
    return model


def _with_shape(*sizes: int) -> ir.Model:
    model = _model(_node())
    model.graph.inputs[0].shape = ir.Shape(sizes)
    return model


@pytest.mark.parametrize("model", [_with_version(2**63), _with_shape(2**64, 3), _with_shape(2**63)])
def test_numbers_of_more_than_64_bits_are_refused(model: ir.Model) -> None:
    with pytest.raises((ir.serde.SerdeError, ValueError)):
        write.serialize(model)


def test_numbers_of_other_types_are_written() -> None:
    model = _with_version(np.int64(300))
    assert onnx.load_model_from_string(write.serialize(model)).opset_import[2].version == 300


def test_a_missing_attribute_is_refused_with_the_node() -> None:
    with pytest.raises(ir.serde.SerdeError, match="serialize_"):
        write.serialize(_model(_node(ir.Attr("value", ir.AttributeType.TENSOR, None))))


def test_the_name_of_a_weight_that_is_no_text_is_refused() -> None:
    exported = onnx_parity.export(torch.nn.Linear(3, 4), (torch.randn(2, 3),))
    next(iter(exported.model.graph.initializers.values())).name = "w\ud800"
    with pytest.raises(
        onnx_parity.WriteError, match=r"the weight 'w\\ud800' cannot be written: .* Give it another name"
    ):
        exported.serialize()


def test_a_graph_of_more_than_a_message_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "INLINE_LIMIT", 700)
    with pytest.raises(onnx_parity.WriteError, match="the graph without its weights has 910 bytes"):
        write.serialize(_model(_node(ir.AttrTensor("value", _FLOATS))))


def test_a_value_without_a_name_is_refused() -> None:
    model = _model(ir.Node("", "Abs", [ir.Value()], num_outputs=1))
    with pytest.raises((ir.serde.SerdeError, TypeError)):
        write.serialize(model)


def test_an_encoded_model_runs() -> None:
    exported = onnx_parity.export(_branches, (torch.randn(4, 3),), dynamic_axes={"x": {0: "rows"}})
    session = onnxruntime.InferenceSession(exported.serialize(), providers=["CPUExecutionProvider"])
    x = torch.randn(7, 3)
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), _branches(x))
