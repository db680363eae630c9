"""A model in float64: the same graph, with float64 wherever it has a narrower floating dtype.

onnx.reference evaluates it as if there were no rounding. If that gives torch's result, the graph is right, and what a
runtime does with it is a question of the runtime or of precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from onnx_parity.exporter.arrays import Array, Fed, is_float

__all__ = ["widen", "widen_feeds"]

_NARROW = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16})
#: The attributes that are a dtype.
_DTYPES = frozenset({"to", "dtype", "output_dtype"})


def widen(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of the model in float64."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    _widen_graph(wide.graph)
    for function in wide.functions:
        _widen_nodes(function.node)
    return wide


def widen_feeds(feeds: Mapping[str, Fed]) -> dict[str, Fed]:
    def wide(fed: Fed) -> Fed:
        if isinstance(fed, list):
            return [_wide(each) for each in fed]
        return None if fed is None else _wide(fed)

    return {name: wide(fed) for name, fed in feeds.items()}


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if is_float(array.dtype) else array


def _widen_graph(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        _widen_type(value.type)
    _widen_nodes(graph.node)


def _widen_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    for node in nodes:
        if node.op_type == "ConstantOfShape" and not node.attribute:
            node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))
        if node.op_type == "GroupNormalization":
            stashed = [each for each in node.attribute if each.name != "stash_type"]
            del node.attribute[:]
            node.attribute.extend([*stashed, helper.make_attribute("stash_type", TensorProto.DOUBLE)])
        for attribute in node.attribute:
            if attribute.name in _DTYPES and attribute.type == AttributeProto.INT and attribute.i in _NARROW:
                attribute.i = TensorProto.DOUBLE
            elif node.op_type == "Constant" and attribute.type in (AttributeProto.FLOAT, AttributeProto.FLOATS):
                value = helper.get_attribute_value(attribute)
                attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(np.array(value, np.float64))))
            elif attribute.type == AttributeProto.TENSOR:
                _widen_tensor(attribute.t)
            elif attribute.type == AttributeProto.GRAPH:
                _widen_graph(attribute.g)


def _widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in _NARROW:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def _widen_type(of: onnx.TypeProto) -> None:
    if of.HasField("sequence_type"):
        _widen_type(of.sequence_type.elem_type)
    elif of.HasField("optional_type"):
        _widen_type(of.optional_type.elem_type)
    elif of.tensor_type.elem_type in _NARROW:
        of.tensor_type.elem_type = TensorProto.DOUBLE
