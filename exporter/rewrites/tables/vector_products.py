"""Products of transposed matrices and a vector, which onnxruntime's optimiser would get wrong.

    MatMul(matrices, vector)  ->  MatMul(vector, transposed matrices)

onnxruntime makes one operator of Transpose and MatMul, FusedMatMul, which gives a wrong result if the transposed
matrices are on the left and a vector is on the right; with the vector on the left it is right. It also moves a
Transpose through other operators, up to the product, so that any Transpose before the product counts. Where it directly
precedes the product, both nodes become one.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.all_nodes import all_nodes
from onnx_parity.exporter.rewrites.engine.matching import permutation_of, producer_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, op

__all__ = ["VECTOR_PRODUCTS"]

#: The dtypes of products that onnxruntime fuses with a transposition.
_FUSED = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE})


def _find_matrices(product: ir.Node, walk: Walk) -> ir.Shape | NoMatch:
    matrices, vector = product.inputs
    of_matrices, of_vector = _shape(matrices), _shape(vector)
    if matrices is None or of_matrices is None or of_vector is None:
        return NoMatch("the numbers of axes are not known")
    if len(of_vector) != 1 or len(of_matrices) < 2:
        return NoMatch("it is no product of matrices with a vector on the right")
    if matrices.dtype not in _FUSED:
        return NoMatch("onnxruntime does not fuse products of the dtype")
    return of_matrices if matrices in walk.once(_after_transposes) else NoMatch("no Transpose comes before it")


def _shape(value: ir.Value | None) -> ir.Shape | None:
    """The shape of a value, which what is computed in another dtype has from before the Cast."""
    while value is not None and value.shape is None and (cast := producer_of(value, "Cast")) is not None:
        value = cast.inputs[0]
    return None if value is None else value.shape


def _after_transposes(walk: Walk) -> set[ir.Value]:
    """The values that depend on the result of a Transpose."""
    found: set[ir.Value] = set()
    for node in all_nodes(walk.graph):
        if node.op_type == "Transpose" or not found.isdisjoint(node.inputs):
            found.update(node.outputs)
    return found


def _turn(product: ir.Node, shape: ir.Shape, _walk: Walk) -> Op:
    matrices, vector = product.inputs
    rank = len(shape)
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    before = producer_of(matrices, "Transpose")
    if before is not None and permutation_of(before) == swapped:
        return op("MatMul", vector, before.inputs[0])
    sizes = [shape[axis] for axis in swapped]
    return op("MatMul", vector, op("Transpose", matrices, perm=swapped, sizes=sizes))


VECTOR_PRODUCTS = (Rewrite(name="matrices times a vector", at=("MatMul",), find=_find_matrices, write=_turn),)
