"""Writes products of matrices and a vector such that onnxruntime's optimiser leaves them right."""

from __future__ import annotations

import onnx_ir as ir

from onnx_parity.exporter.passes.all_nodes import all_nodes
from onnx_parity.exporter.passes.matching import permutation_of, producer_of

__all__ = ["turn_vector_products"]

#: The dtypes of products that onnxruntime fuses with a transposition.
_FUSED = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE})


def turn_vector_products(model: ir.Model) -> None:
    """Write `matrices @ vector` as `vector @ transposed matrices`, where the matrices come from a transposition.

    onnxruntime makes one operator of Transpose and MatMul, FusedMatMul, which gives a wrong result if the transposed
    matrices are on the left and a vector is on the right; with the vector on the left it is right. It also moves a
    Transpose through other operators, up to the product, so that any Transpose before the product counts. Where it
    directly precedes the product, both nodes become one.
    """
    products = [node for node in all_nodes(model.graph) if _is_of_a_vector(node)]
    if not products:
        return
    transposed = _after_transposes(model)
    for node in products:
        if node.inputs[0] in transposed:
            _turn(node)


def _is_of_a_vector(node: ir.Node) -> bool:
    if node.op_type != "MatMul" or node.domain:
        return False
    matrices, vector = node.inputs
    of_matrices, of_vector = _shape(matrices), _shape(vector)
    if matrices is None or of_matrices is None or of_vector is None:
        return False
    return len(of_vector) == 1 and len(of_matrices) >= 2 and matrices.dtype in _FUSED


def _shape(value: ir.Value | None) -> ir.Shape | None:
    """The shape of a value, which what is computed in another dtype has from before the Cast."""
    while value is not None and value.shape is None and (cast := producer_of(value, "Cast")) is not None:
        value = cast.inputs[0]
    return None if value is None else value.shape


def _after_transposes(model: ir.Model) -> set[ir.Value]:
    """The values that depend on the result of a Transpose."""
    found: set[ir.Value] = set()
    for node in all_nodes(model.graph):
        if node.op_type == "Transpose" or not found.isdisjoint(node.inputs):
            found.update(node.outputs)
    return found


def _turn(node: ir.Node) -> None:
    matrices, vector = node.inputs
    shape = _shape(matrices)
    assert matrices is not None and shape is not None and node.graph is not None
    rank = len(shape)
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    before = producer_of(matrices, "Transpose")
    if before is not None and permutation_of(before) == swapped:
        turned = before.inputs[0]
    else:
        transpose = ir.Node("", "Transpose", [matrices], [ir.AttrInt64s("perm", swapped)])
        transpose.meta.update(node.meta)
        transpose.metadata_props.update(node.metadata_props)
        transpose.doc_string = node.doc_string
        node.graph.insert_before(node, transpose)
        turned = transpose.outputs[0]
        turned.type = matrices.type
        turned.shape = ir.Shape([shape[axis] for axis in swapped])
    node.replace_input_with(0, vector)
    node.replace_input_with(1, turned)
