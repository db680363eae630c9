"""Encodes models as protobuf messages, without the weights of their graphs.

A protobuf message is a sequence of fields, each of which is a tag and a number, or a tag, a length and bytes. onnx's
own classes of messages are not used, because importing them takes longer than exporting a small model does. The tests
compare the bytes with those of these classes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import onnx_ir as ir
from onnx_ir.tensor_adapters import TorchTensor

from onnx_parity.exporter.files import fields
from onnx_parity.exporter.files.fields import varint

__all__ = ["NotEncoded", "encode", "prefix", "tensor_header"]

#: The classes of tensors whose bytes are those that `tobytes` gives.
_IN_MEMORY = (ir.Tensor, ir.LazyTensor, TorchTensor)
#: What onnx_ir notes of the values of quantized models that it reads.
_QUANTIZATION = "quant_parameter_tensor_names"
#: Where the data of a tensor is: in another file.
_EXTERNAL = 1


class NotEncoded(Exception):
    """The model contains something that is seldom in exports, or that no model may contain.

    onnx_ir writes the former, and says of the latter what is wrong.
    """


def encode(model: ir.Model) -> tuple[bytes, bytes]:
    """The fields of a model but for its graph, and those of its graph.

    Raises `NotEncoded` for functions, for models of several devices, and for values that the format does not have.
    """
    try:
        return _model(model), _graph(model.graph)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        # A value is of another type than it has to be.
        raise NotEncoded(str(error)) from error


def _model(model: ir.Model) -> bytes:
    if model.functions or model.device_configurations:
        raise NotEncoded("it has functions, or runs on several devices")
    rest = [
        fields.Model.IR_VERSION + _integer(model.ir_version),
        _if_any(fields.Model.PRODUCER_NAME, model.producer_name),
        _if_any(fields.Model.PRODUCER_VERSION, model.producer_version),
        _if_any(fields.Model.DOMAIN, model.domain),
        fields.Model.VERSION + _integer(model.model_version) if model.model_version else b"",
        _if_any(fields.Model.DOC_STRING, model.doc_string),
        *[_message(fields.Model.OPSET, _opset(domain, number)) for domain, number in model.opset_imports.items()],
        _entries(fields.Model.METADATA, model.metadata_props),
    ]
    return b"".join(rest)


def tensor_header(
    name: str | None, dtype: ir.DataType, dims: Iterable[int], external: Mapping[str, object] | None = None
) -> bytes:
    """The fields of a tensor but for its data, which follows, or is in the place that `external` describes."""
    out = b"".join([fields.Tensor.DIM + varint(size) for size in dims]) + fields.Tensor.DTYPE + varint(dtype.value)
    if name:
        out += _text(fields.Tensor.NAME, name)
    if external is None:
        return out
    for key, value in external.items():
        out += _message(fields.Tensor.EXTERNAL_DATA, _entry(key, str(value)))
    return out + fields.Tensor.DATA_LOCATION + varint(_EXTERNAL)


def prefix(tag: bytes, length: int) -> bytes:
    """What comes before the bytes of a field, of which there are `length`."""
    return tag + varint(length)


# --- messages ---------------------------------------------------------------------------------------------------------


def _graph(graph: ir.Graph) -> bytes:
    nodes, initializers = [], []
    inputs = {value.name for value in graph.inputs}
    described = []
    for value in graph.initializers.values():
        if value.const_value is None:
            raise NotEncoded("an initializer has no value")
        initializers.append(_message(fields.Graph.INITIALIZER, _tensor(value.const_value, value.name)))
        if value.name not in inputs:
            described.append(value)
    for node in graph:
        nodes.append(_message(fields.Graph.NODE, _node(node)))
        described += [output for output in node.outputs if not output.is_graph_output()]
    return b"".join(
        [
            *nodes,
            _if_any(fields.Graph.NAME, graph.name),
            *initializers,
            _if_any(fields.Graph.DOC_STRING, graph.doc_string),
            *[_message(fields.Graph.INPUT, _value(value)) for value in graph.inputs],
            *[_message(fields.Graph.OUTPUT, _value(value)) for value in graph.outputs],
            *[_message(fields.Graph.VALUE, _value(value)) for value in described if _is_described(value)],
            _entries(fields.Graph.METADATA, graph.metadata_props),
        ]
    )


def _node(node: ir.Node) -> bytes:
    if node.device_configurations:
        raise NotEncoded("a node runs on several devices")
    outputs = [output.name for output in node.outputs]
    while outputs and not outputs[-1]:
        outputs.pop()
    return b"".join(
        [
            *[_text(fields.Node.INPUT, "" if value is None else value.name) for value in node.inputs],
            *[_text(fields.Node.OUTPUT, name) for name in outputs],
            _if_any(fields.Node.NAME, node.name),
            _text(fields.Node.OPERATOR, node.op_type),
            *[_message(fields.Node.ATTRIBUTE, _attribute(attribute)) for attribute in node.attributes.values()],
            _if_any(fields.Node.DOC_STRING, node.doc_string),
            _if_any(fields.Node.DOMAIN, node.domain),
            _if_any(fields.Node.OVERLOAD, node.overload),
            _entries(fields.Node.METADATA, node.metadata_props),
        ]
    )


def _attribute(attribute: ir.Attr) -> bytes:
    encoded = _VALUES.get(attribute.type)
    if encoded is None or attribute.is_ref():
        raise NotEncoded(f"an attribute is of the type {attribute.type}, or refers to a function's")
    out = _text(fields.Attribute.NAME, attribute.name)
    documented = _if_any(fields.Attribute.DOC_STRING, attribute.doc_string)
    value = encoded(attribute.value)
    # In the order of the numbers of the fields.
    out += documented + value if attribute.type is ir.AttributeType.TYPE_PROTO else value + documented
    return out + fields.Attribute.KIND + varint(attribute.type.value)


def _tensor(tensor: ir.TensorProtocol, name: str | None) -> bytes:
    header = tensor_header(None, tensor.dtype, tensor.shape.numpy())
    named = _if_any(fields.Tensor.NAME, name)
    if isinstance(tensor, ir.StringTensor):
        out = header + b"".join([_message(fields.Tensor.STRING_DATA, text) for text in tensor.string_data()]) + named
    elif isinstance(tensor, _IN_MEMORY):
        out = header + named + _message(fields.Tensor.RAW_DATA, tensor.tobytes())
    else:
        raise NotEncoded(f"a tensor is a {type(tensor)}")
    out += _if_any(fields.Tensor.DOC_STRING, tensor.doc_string)
    return out + _entries(fields.Tensor.METADATA, tensor.metadata_props)


def _value(value: ir.Value) -> bytes:
    if _QUANTIZATION in value.meta or (value.type is None and value.shape is not None):
        raise NotEncoded("a value has an annotation, or a shape without a type")
    out = _text(fields.Value.NAME, value.name)
    if value.type is not None:
        out += _message(fields.Value.TYPE, _type(value.type, value.shape))
    out += _if_any(fields.Value.DOC_STRING, value.doc_string)
    return out + _entries(fields.Value.METADATA, value.metadata_props)


def _is_described(value: ir.Value) -> bool:
    """Whether anything is known of a value but for its name."""
    if _QUANTIZATION in value.meta:
        raise NotEncoded("a value has an annotation")
    known = value.type is not None or value.shape is not None or value.metadata_props or value.doc_string
    return bool(value.name and known)


def _type(kind: ir.TypeProtocol, shape: ir.Shape | None) -> bytes:
    """A type, where the shape is that of the tensors in it."""
    if isinstance(kind, ir.TensorType | ir.SparseTensorType):
        inner = fields.Type.ELEMENT_DTYPE + varint(kind.dtype.value)
        if shape is not None:
            inner += _message(fields.Type.SHAPE, _shape(shape))
        tag = fields.Type.TENSOR if isinstance(kind, ir.TensorType) else fields.Type.SPARSE_TENSOR
    elif isinstance(kind, ir.SequenceType | ir.OptionalType):
        inner = _message(fields.Type.ELEMENT_TYPE, _type(kind.elem_type, shape))
        tag = fields.Type.SEQUENCE if isinstance(kind, ir.SequenceType) else fields.Type.OPTIONAL
    else:
        raise NotEncoded(f"a type is a {type(kind)}")
    if kind.denotation:
        raise NotEncoded("a type has a denotation")
    return _message(tag, inner)


def _shape(shape: ir.Shape) -> bytes:
    out = []
    for axis, size in enumerate(shape):
        if isinstance(size, int):
            dimension = fields.Dimension.SIZE + _integer(size)
        elif size.value is None:
            dimension = b""
        else:
            dimension = _text(fields.Dimension.NAME, size.value)
        dimension += _if_any(fields.Dimension.DENOTATION, shape.get_denotation(axis))
        out.append(_message(fields.Shape.DIMENSION, dimension))
    return b"".join(out)


def _entries(tag: bytes, texts: Mapping[str, str]) -> bytes:
    return b"".join([_message(tag, _entry(key, texts[key])) for key in sorted(texts)]) if texts else b""


def _opset(domain: str, version: int) -> bytes:
    return _text(fields.Opset.DOMAIN, domain) + fields.Opset.VERSION + _integer(version)


def _entry(key: str, value: str) -> bytes:
    return _text(fields.Entry.KEY, key) + _text(fields.Entry.VALUE, value)


# --- fields -----------------------------------------------------------------------------------------------------------


def _message(tag: bytes, data: bytes) -> bytes:
    return prefix(tag, len(data)) + data


def _text(tag: bytes, text: str | None) -> bytes:
    if not isinstance(text, str):
        raise NotEncoded(f"a text is {text!r}")
    return _message(tag, text.encode())


def _if_any(tag: bytes, text: str | None) -> bytes:
    return _text(tag, text) if text else b""


def _integer(value: Any) -> bytes:
    if not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise NotEncoded(f"an integer is {value!r}")
    return varint(value)


def _float(value: Any) -> bytes:
    if not isinstance(value, float | int):
        raise NotEncoded(f"a number is {value!r}")
    try:
        return struct.pack("<f", value)
    except OverflowError as error:
        raise NotEncoded(f"a number is {value!r}") from error


def _each(encoded: Callable[[Any], bytes]) -> Callable[[Sequence[Any]], bytes]:
    return lambda values: b"".join([encoded(value) for value in values])


#: How values of attributes are encoded.
_VALUES: dict[ir.AttributeType, Callable[[Any], bytes]] = {
    ir.AttributeType.FLOAT: lambda value: fields.Attribute.FLOAT + _float(value),
    ir.AttributeType.INT: lambda value: fields.Attribute.INT + _integer(value),
    ir.AttributeType.STRING: lambda value: _text(fields.Attribute.STRING, value),
    ir.AttributeType.TENSOR: lambda value: _message(fields.Attribute.TENSOR, _tensor(value, value.name)),
    ir.AttributeType.GRAPH: lambda value: _message(fields.Attribute.GRAPH, _graph(value)),
    ir.AttributeType.FLOATS: _each(lambda value: fields.Attribute.FLOATS + _float(value)),
    ir.AttributeType.INTS: _each(lambda value: fields.Attribute.INTS + _integer(value)),
    ir.AttributeType.STRINGS: _each(lambda value: _text(fields.Attribute.STRINGS, value)),
    ir.AttributeType.TYPE_PROTO: lambda value: _message(fields.Attribute.TYPE_PROTO, _type(value.type, value.shape)),
}
