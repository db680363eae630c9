"""Gives linear layers a tensor with all its axes, where the program makes one axis of all but the last, as GPT-2 does.

A weight that a Gemm reads transposed is transposed when it is written: folding, which comes after, does that.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_parity.exporter.passes.all_nodes import all_nodes
from onnx_parity.exporter.passes.fusions.origins import take_origin
from onnx_parity.exporter.passes.matching import is_read_by_one, sizes_of

__all__ = ["keep_rows_apart"]


def keep_rows_apart(model: ir.Model, *, keeps_weights: bool = False) -> None:
    """Write each Reshape, Gemm and Reshape as MatMul and Add, and each Reshape, MatMul and Reshape as MatMul.

    This removes four nodes from each layer of GPT-2. The tensor keeps all its axes but the last, and nothing else
    reads the rows or what is computed from them. With `keeps_weights`, no weight has to be stored anew.
    """
    for rows in list(all_nodes(model.graph)):
        if rows.op_type != "Reshape" or rows.domain or rows.outputs[0].is_graph_output():
            continue
        layers = [node for node, _ in rows.outputs[0].uses()]
        lasts = [_reshape_after(rows, layer, keeps_weights) for layer in layers]
        for layer, last in zip(layers, lasts, strict=True) if None not in lasts else ():
            assert last is not None
            _rewrite(rows.inputs[0], layer, last)


def _reshape_after(rows: ir.Node, layer: ir.Node, keeps_weights: bool) -> ir.Node | None:
    """The Reshape after a linear layer that gives its result the axes which the layer's input had before it.

    1. The layer is a product of the rows and a matrix, with a bias or without, and only that Reshape reads it.
    2. All three are in one graph: a branch or a loop would compute more than before, or return what is outside of it.
    3. The axes but the last are the same before and after, and the last ones are those of the matrix.
    4. A matrix that has to be transposed is a weight of this layer alone, and may be stored anew.
    """
    weight = layer.inputs[1] if _is_plain(layer) and layer.inputs[0] is rows.outputs[0] else None
    matrix = sizes_of(weight)
    if weight is None or weight is rows.outputs[0] or matrix is None or len(matrix) != 2 or not is_read_by_one(layer):
        return None
    last = next(node for node, _ in layer.outputs[0].uses())
    if last.op_type != "Reshape" or last.domain or not rows.graph is layer.graph is last.graph:
        return None
    before, after, row = sizes_of(rows.inputs[0]), sizes_of(last.outputs[0]), sizes_of(rows.outputs[0])
    if before is None or after is None or row is None or len(row) != 2 or len(before) < 3:
        return None
    is_turned = layer.attributes.get_int("transB", 0) == 1
    if before[:-1] != after[:-1] or before[-1] != row[-1] or after[-1] != matrix[0 if is_turned else 1]:
        return None
    if is_turned and (keeps_weights or not weight.is_initializer() or len(weight.uses()) > 1):
        return None
    bias = layer.inputs[2] if len(layer.inputs) > 2 else None
    return last if bias is None or sizes_of(bias) == after[-1:] else None


def _is_plain(layer: ir.Node) -> bool:
    """Whether it is a product of matrices, with a sum or without, and nothing else."""
    if layer.domain or layer.op_type not in ("Gemm", "MatMul"):
        return False
    values = {name: attribute.value for name, attribute in layer.attributes.items() if name != "transB"}
    return all(values.get(name, plain) == plain for name, plain in (("alpha", 1.0), ("beta", 1.0), ("transA", 0)))


def _rewrite(x: ir.Value | None, layer: ir.Node, last: ir.Node) -> None:
    weight, bias = layer.inputs[1], layer.inputs[2] if len(layer.inputs) > 2 else None
    assert weight is not None
    if layer.attributes.get_int("transB", 0) == 1:
        weight = _transposed(weight, layer)
    product, out = layer.outputs[0], last.outputs[0]
    layer.op_type = "MatMul"
    layer.attributes.clear()
    layer.resize_inputs(2)
    layer.replace_input_with(0, x)
    layer.replace_input_with(1, weight)
    product.shape = out.shape
    if bias is not None:
        last.op_type = "Add"
        last.attributes.clear()
        last.replace_input_with(1, bias)
        return
    if out.is_graph_output():
        product.name, out.name = out.name, None
    out.replace_all_uses_with(product, replace_graph_outputs=True)


def _transposed(weight: ir.Value, node: ir.Node) -> ir.Value:
    """A transposed weight, which folding computes when it is written."""
    assert node.graph is not None and weight.shape is not None
    transpose = ir.Node("", "Transpose", [weight], [ir.AttrInt64s("perm", [1, 0])])
    take_origin(transpose, node)
    node.graph.insert_before(node, transpose)
    result = transpose.outputs[0]
    result.type, result.shape = weight.type, ir.Shape([weight.shape[1], weight.shape[0]])
    return result
