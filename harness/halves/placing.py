"""Chooses which nodes of a float32 model compute in half, so that as few values as possible are cast.

Nodes that read or make a value that half cannot hold stay in float32, and those with large weights, which are why a
model is wanted in half, do not. Each of the others is where fewer casts are needed. This is a minimum cut between the
two: a cast reads and writes a value as an elementwise operator does, and an operator in float32 moves twice the bytes
of one in half, so that a cast counts twice as much as a node that is left in float32 for its sake.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import networkx  # type: ignore[import-untyped]
import onnx
import onnx_ir as ir

from onnx_parity.harness.halves.flat_model import has_blocks

__all__ = ["halved_inputs", "halved_outputs", "in_half"]

#: Operators that cost much more in float32 than a cast does, as do all that read a constant of so many numbers.
_HEAVY = frozenset({"Attention", "Conv", "ConvTranspose", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RNN"})
_MANY = 1024
_CAST, _NODE = 2, 1
#: Operators whose result has the dtype that an attribute gives, which is changed with it.
BY_ATTRIBUTE = {"Cast": "to", "ConstantOfShape": "value"}


def in_half(model: ir.Model, kept: Set[str], half: str) -> set[ir.Node]:
    """The nodes of a flat model that compute in half, if those that return a value named in `kept` do not."""
    graph = networkx.DiGraph()
    able: set[ir.Node] = set()
    for node in model.graph:
        ends = [*halved_inputs(node, model, half), *halved_outputs(node, model, half)]
        if not ends:
            continue
        if any(output.name in kept for output in node.outputs):
            graph.add_edge(node, "float32")
            continue
        able.add(node)
        if _is_heavy(node, model, half):
            graph.add_edge("half", node)
        else:
            graph.add_edge("half", node, capacity=_NODE)
    for producer, value in _values(model):
        maker = producer if producer in able and value in halved_outputs(producer, model, half) else "float32"
        readers = [
            use.node if use.node in able and use.idx in halved_inputs(use.node, model, half) else "float32"
            for use in value.uses()
            if use.node.graph is model.graph
        ]
        if value.is_graph_output() or len(readers) < len(value.uses()):
            readers.append("float32")
        to_float32, to_half = ("to float32", value), ("to half", value)
        for reader in dict.fromkeys(readers):
            if reader is not maker:
                graph.add_edge(to_float32, reader)
                graph.add_edge(reader, to_half)
        graph.add_edge(maker, to_float32, capacity=_CAST)
        graph.add_edge(to_half, maker, capacity=_CAST)
    if not able or "half" not in graph:
        return set()
    graph.add_node("float32")
    _, (with_half, _) = networkx.minimum_cut(graph, "half", "float32")
    return able.intersection(with_half)


def halved_inputs(node: ir.Node, model: ir.Model, half: str) -> dict[int, ir.Value]:
    """The float32 inputs, by position, that are in half if the node computes in half."""
    schema = _schema(node, model)
    if schema is None:
        return {}
    return {
        number: value
        for number, value in enumerate(node.inputs)
        if value is not None and value.dtype is ir.DataType.FLOAT and _takes_half(schema, schema.inputs, number, half)
    }


def halved_outputs(node: ir.Node, model: ir.Model, half: str) -> list[ir.Value]:
    """The float32 outputs that are in half if the node computes in half."""
    schema = _schema(node, model)
    if schema is None:
        return []
    read = {schema.inputs[min(number, len(schema.inputs) - 1)].type_str for number in halved_inputs(node, model, half)}
    return [
        value
        for number, value in enumerate(node.outputs)
        if value.dtype is ir.DataType.FLOAT
        and _takes_half(schema, schema.outputs, number, half)
        and (_formal(schema.outputs, number).type_str in read or node.op_type in BY_ATTRIBUTE)
    ]


def _values(model: ir.Model) -> list[tuple[ir.Node | str, ir.Value]]:
    """What computes each float32 value, and the value. Constants are of either dtype and need no cast."""
    values: list[tuple[ir.Node | str, ir.Value]] = [("float32", value) for value in model.graph.inputs]
    values += [(node, output) for node in model.graph for output in node.outputs]
    return [
        (maker, value) for maker, value in values if value.dtype is ir.DataType.FLOAT and not value.is_initializer()
    ]


def _is_heavy(node: ir.Node, model: ir.Model, half: str) -> bool:
    if node.op_type in _HEAVY:
        return True
    constants = [value.const_value for value in halved_inputs(node, model, half).values() if value.is_initializer()]
    return any(constant is not None and constant.size >= _MANY for constant in constants)


def _schema(node: ir.Node, model: ir.Model) -> onnx.defs.OpSchema | None:
    """The operator of the standard; None for any other, and for one with blocks, which read values by their names."""
    if node.domain or has_blocks(node):
        return None
    try:
        return onnx.defs.get_schema(node.op_type, model.opset_imports[""])
    except onnx.defs.SchemaError:
        return None


def _formal(formals: Sequence[onnx.defs.OpSchema.FormalParameter], number: int) -> onnx.defs.OpSchema.FormalParameter:
    return formals[min(number, len(formals) - 1)]


def _takes_half(
    schema: onnx.defs.OpSchema, formals: Sequence[onnx.defs.OpSchema.FormalParameter], number: int, half: str
) -> bool:
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    return f"tensor({half})" in allowed.get(_formal(formals, number).type_str, ())
