"""Linear layers that are given a tensor with all its axes, where the program makes one axis of all but the last.

    Reshape(Gemm(Reshape(x), weight, bias))  ->  MatMul(x, weight) + bias
    Reshape(MatMul(Reshape(x), weight))      ->  MatMul(x, weight)

This removes four nodes from each layer of GPT-2. A weight that a Gemm reads transposed is transposed when it is
written: folding, which comes after, does that.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.all_nodes import onnx_operator
from onnx_parity.exporter.rewrites.engine.matching import is_plain_product, is_read_by_one, producer_of, sizes_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, op

__all__ = ["LINEAR_LAYERS"]


def _find_layer(last: ir.Node, walk: Walk) -> tuple[ir.Value, ir.Node] | NoMatch:
    """The tensor with all its axes, and the layer, if all layers that read the same rows can be rewritten."""
    layer = producer_of(last.inputs[0], "Gemm", "MatMul")
    rows = producer_of(layer.inputs[0], "Reshape") if layer is not None else None
    if layer is None or rows is None or rows.inputs[0] is None:
        return NoMatch("it does not reshape a product of reshaped rows")
    if rows.outputs[0].is_graph_output():
        return NoMatch("the rows are an output")
    for reader, _ in rows.outputs[0].uses():
        reason = _reason_to_stay(rows, reader, walk.keeps_weights)
        if reason is not None:
            return reason
    return rows.inputs[0], layer


def _reason_to_stay(rows: ir.Node, layer: ir.Node, keeps_weights: bool) -> NoMatch | None:
    """Why the rows have to stay for one of the nodes that read them.

    1. A layer is a product of the rows and a matrix, with a bias or without, and only a Reshape reads it.
    2. All three are in one graph: a branch or a loop would compute more than before, or return what is outside of it.
    3. The axes but the last are the same before and after, and the last ones are those of the matrix.
    4. A matrix that has to be transposed is a weight of this layer alone, and may be stored anew.
    """
    weight = layer.inputs[1] if is_plain_product(layer) and layer.inputs[0] is rows.outputs[0] else None
    matrix = sizes_of(weight)
    if weight is None or weight is rows.outputs[0] or matrix is None or len(matrix) != 2 or not is_read_by_one(layer):
        return NoMatch("the rows are read by something else than a product with a matrix")
    last = next(node for node, _ in layer.outputs[0].uses())
    if onnx_operator(last) != "Reshape" or not rows.graph is layer.graph is last.graph:
        return NoMatch("the product is not reshaped in the same graph")
    before, after, row = sizes_of(rows.inputs[0]), sizes_of(last.outputs[0]), sizes_of(rows.outputs[0])
    if before is None or after is None or row is None or len(row) != 2 or len(before) < 3:
        return NoMatch("sizes are not known, or there are no axes to keep apart")
    is_turned = layer.attributes.get_int("transB", 0) == 1
    if before[:-1] != after[:-1] or before[-1] != row[-1] or after[-1] != matrix[0 if is_turned else 1]:
        return NoMatch("the product is given other axes than the rows had")
    if is_turned and (keeps_weights or not weight.is_initializer() or len(weight.uses()) > 1):
        return NoMatch("the weight cannot be stored transposed")
    bias = layer.inputs[2] if len(layer.inputs) > 2 else None
    return None if bias is None or sizes_of(bias) == after[-1:] else NoMatch("the bias has not one number a feature")


def _multiply(last: ir.Node, found: tuple[ir.Value, ir.Node], _walk: Walk) -> Op:
    x, layer = found
    weight, bias = layer.inputs[1], layer.inputs[2] if len(layer.inputs) > 2 else None
    assert weight is not None and weight.shape is not None
    right: ir.Value | Op = weight
    if layer.attributes.get_int("transB", 0) == 1:
        right = op("Transpose", weight, perm=[1, 0], sizes=[weight.shape[1], weight.shape[0]])
    product = op("MatMul", x, right, sizes=last.outputs[0].shape, instead_of=layer)
    return product if bias is None else op("Add", product, bias)


LINEAR_LAYERS = (Rewrite(name="linear layer of rows", at=("Reshape",), find=_find_layer, write=_multiply),)
