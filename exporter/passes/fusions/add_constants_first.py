"""Adds constants to each other that a program adds to a tensor one after the other, as BERT's embeddings of positions
and of token types, where the example fixes both.
"""

from __future__ import annotations

import onnx_ir as ir
import torch

from onnx_parity.exporter.passes.all_nodes import all_nodes
from onnx_parity.exporter.passes.fold import fold_node, is_learned, known_tensor
from onnx_parity.exporter.passes.fusions.origins import take_origin
from onnx_parity.exporter.passes.matching import is_read_by_one, pairs_of, producer_of

__all__ = ["add_constants_first"]

#: Halves would be rounded otherwise by more than their users may expect.
_DTYPES = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


def add_constants_first(model: ir.Model) -> None:
    """Write (x + a) + b as x + (a + b), which is computed when the model is written.

    1. One of the constants has the shape of both together, and nothing else reads it: the model becomes no larger.
    2. One of them at least depends on parameters. Others may be there to round: what a program adds and takes away.
    """
    for node in list(all_nodes(model.graph)):
        if node.op_type == "Add" and not node.domain and node.outputs[0].dtype in _DTYPES:
            _add_first(model.graph, node)


def _add_first(graph: ir.Graph, total: ir.Node) -> None:
    for inner, b in pairs_of(total):
        before = producer_of(inner, "Add")
        if before is None or before.graph is not total.graph or not is_read_by_one(before):
            continue
        for x, a in pairs_of(before):
            larger = _larger_of(a, b)
            if larger is None or len(larger.uses()) > 1 or known_tensor(x) is not None:
                continue
            constants = ir.Node("", "Add", [a, b])
            take_origin(constants, total)
            assert total.graph is not None
            total.graph.insert_before(total, constants)
            constants.outputs[0].type, constants.outputs[0].shape = b.type, larger.shape
            total.replace_input_with(0, x)
            total.replace_input_with(1, constants.outputs[0])
            total.graph.remove(before, safe=True)
            fold_node(graph, constants)
            return


def _larger_of(a: ir.Value, b: ir.Value) -> ir.Value | None:
    """Which of two constants, of which one is learned, has the shape of both together; None if neither has."""
    one, other = (known_tensor(value) for value in (a, b))
    if one is None or other is None or not (is_learned(one) or is_learned(other)):
        return None
    shapes = tuple(one.shape.numpy()), tuple(other.shape.numpy())
    whole = torch.broadcast_shapes(*shapes)
    return a if shapes[0] == whole else b if shapes[1] == whole else None
