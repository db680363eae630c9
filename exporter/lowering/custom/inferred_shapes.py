"""Shapes of the results of users' lowerings, from ONNX's shape inference. They are compared with torch's.

The package's own lowerings are not checked, to save time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

import onnx
import onnx.shape_inference
import onnx_ir as ir

from onnx_parity.exporter.files.lazy_tensors import WeightTensor

__all__ = ["shapes_of"]

#: Shape inference reads the shape input of a Reshape. Such tensors have at most this many elements.
_FEW = 64


def shapes_of(nodes: Sequence[ir.Node], imports: Mapping[str, int]) -> dict[ir.Value, list[int | None]]:
    """The shapes of the outputs of nodes, as far as ONNX can infer them. Nothing is inferred if a node has a
    subgraph."""
    if any(attribute.type is ir.AttributeType.GRAPH for node in nodes for attribute in node.attributes.values()):
        return {}
    made = {output.name: output for node in nodes for output in node.outputs}
    taken = {value.name: value for node in nodes for value in node.inputs if value is not None}
    outside = [value for name, value in taken.items() if name not in made]
    known = [value.const_value for value in outside if _may_be_sizes(value.const_value)]
    graph = onnx.helper.make_graph(
        [ir.to_proto(node) for node in nodes],
        "emitted",
        [ir.to_proto(value) for value in outside],
        [],
        [ir.to_proto(tensor) for tensor in known],
    )
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in imports.items()]
    inferred = onnx.shape_inference.infer_shapes(onnx.helper.make_model(graph, opset_imports=opsets), data_prop=True)
    return {
        made[info.name]: [
            size.dim_value if size.HasField("dim_value") else None for size in info.type.tensor_type.shape.dim
        ]
        for info in inferred.graph.value_info
        if info.name in made and info.type.tensor_type.HasField("shape")
    }


def _may_be_sizes(tensor: ir.TensorProtocol | None) -> TypeGuard[ir.TensorProtocol]:
    """Whether shape inference may read the tensor. It must not read weights, whose values may be replaced later."""
    if tensor is None or isinstance(tensor, WeightTensor):
        return False
    return tensor.dtype is ir.DataType.INT64 and tensor.size <= _FEW
