"""Merges nodes that compute the same from the same values, as where each layer casts the mask again.

onnx_ir's CommonSubexpressionEliminationPass is not used, because it merges nodes of users' own domains too, which may
be random or count their calls, and renames outputs of the model.
"""

from __future__ import annotations

from collections.abc import Hashable

import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.all_nodes import onnx_operator

__all__ = ["merge_equal_nodes"]

#: Operators that give other values each time.
_RANDOM = frozenset({"Bernoulli", "Dropout", "Multinomial"})
#: How many bytes a tensor among the attributes may have to be compared. That of ConstantOfShape is one number.
_SHORT = 16
_SIMPLE = frozenset(
    {
        ir.AttributeType.INT,
        ir.AttributeType.INTS,
        ir.AttributeType.FLOAT,
        ir.AttributeType.FLOATS,
        ir.AttributeType.STRING,
        ir.AttributeType.TENSOR,
    }
)


def merge_equal_nodes(model: ir.Model) -> None:
    """Let the first of several equal nodes compute for all of them, unless a result is an output of the model."""
    first: dict[Hashable, ir.Node] = {}
    for node in model.graph:
        key = _key(node)
        known = first.setdefault(key, node) if key is not None else node
        if known is node or any(output.is_graph_output() for output in node.outputs):
            continue
        for output, same in zip(node.outputs, known.outputs, strict=True):
            if same.shape is None:
                same.shape = output.shape
            output.replace_all_uses_with(same)
        model.graph.remove(node, safe=True)


def _key(node: ir.Node) -> Hashable:
    """What equal nodes have in common; None for a node that has to be computed each time."""
    operator = onnx_operator(node)
    if not operator or operator in _RANDOM or operator.startswith("Random"):
        return None
    attributes = sorted(node.attributes.values(), key=lambda attribute: attribute.name)
    if any(attribute.type not in _SIMPLE for attribute in attributes):
        return None
    if any(attribute.type == ir.AttributeType.TENSOR and attribute.value.nbytes > _SHORT for attribute in attributes):
        return None
    given = tuple((each.name, _hashable(each.value)) for each in attributes)
    outputs = tuple((output.name == "", _items(output)) for output in node.outputs)
    return operator, tuple(map(id, node.inputs)), given, outputs


def _items(output: ir.Value) -> Hashable:
    """What a list holds, because two empty lists are the same only if they are of the same tensors."""
    return str(output.shape) if isinstance(output.type, ir.SequenceType) else None


def _hashable(value: object) -> Hashable:
    if isinstance(value, (list, tuple)):
        return tuple(value)
    if isinstance(value, (int, float, str)):
        return value  # Before the next question, because isinstance takes 10 us for onnx_ir's protocols.
    return (value.dtype, tuple(value.shape.numpy()), value.tobytes()) if isinstance(value, ir.TensorProtocol) else value
