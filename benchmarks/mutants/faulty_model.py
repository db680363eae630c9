"""A model in which one operator is slightly wrong at one size: what a runtime with a faulty kernel would compute, and
what a faulty transformation would return.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

#: By how much results are wrong: floats by this factor, integers by 1; booleans are the opposite.
FACTOR = 1.01


@dataclass(frozen=True, slots=True)
class Fault:
    """One operator, at one size of an axis of its result."""

    operator: str
    size: int

    def __str__(self) -> str:
        return f"{self.operator} of {self.size} elements along an axis"


def with_fault(model: onnx.ModelProto, fault: Fault) -> onnx.ModelProto:
    """The model with wrong results of the operator where an axis has the size. Graphs inside of others stay."""
    known = onnx.shape_inference.infer_shapes(model).graph
    types = {value.name: value.type.tensor_type for value in (*known.input, *known.value_info, *known.output)}
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:]
    for node in model.graph.node:
        is_faulty = node.op_type == fault.operator and _has_size(types, node, fault.size)
        made.graph.node.extend(_faulty(node, types[node.output[0]].elem_type) if is_faulty else [node])
    return made


def _has_size(types: Mapping[str, onnx.TypeProto.Tensor], node: onnx.NodeProto, size: int) -> bool:
    found = types.get(node.output[0])
    return found is not None and any(axis.dim_value == size for axis in found.shape.dim)


def _faulty(node: onnx.NodeProto, dtype: int) -> Iterator[onnx.NodeProto]:
    """The node, and one that makes its first result wrong."""
    right, wrong = f"{node.output[0]}_of_the_node", node.output[0]
    renamed = onnx.NodeProto()
    renamed.CopyFrom(node)
    renamed.output[0] = right
    yield renamed
    if dtype == TensorProto.BOOL:
        yield helper.make_node("Not", [right], [wrong])
        return
    is_float = dtype in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
    number = np.array(FACTOR if is_float else 1, helper.tensor_dtype_to_np_dtype(dtype))
    constant = f"{wrong}_factor"
    yield helper.make_node("Constant", [], [constant], value=numpy_helper.from_array(number))
    yield helper.make_node("Mul" if is_float else "Add", [right, constant], [wrong])


#: The fault of `transform`, which is planted in a process of its own.
planted = Fault("", 0)


def transform(model: onnx.ModelProto) -> onnx.ModelProto:
    """A transformation that is wrong in just that."""
    return with_fault(model, planted)
