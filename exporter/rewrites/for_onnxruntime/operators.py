"""Operators that onnxruntime has and ONNX has not, for `target="onnxruntime"` alone.

    s = x + skip; y = RMSNormalization(s, scale)  ->  y, s = SkipSimplifiedLayerNormalization(x, skip, scale)
    MatMul(x, DequantizeLinear(integers, scales, zero points), in blocks)  ->  MatMulNBits(x, ...)

The first is one walk over the activations instead of several, in each of the two places of a layer of a language model.
The second is what onnxruntime makes of the two operators itself, when it loads a model: a llama of 200 million weights
of four bits then loads in a quarter of the time.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor

from onnx_parity.exporter.rewrites.engine.matching import known_tensor, producer_of, sizes_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Rewrite, Walk, op
from onnx_parity.exporter.rewrites.for_onnxruntime.group_query_attention import GROUP_QUERY_ATTENTION
from onnx_parity.exporter.rewrites.for_onnxruntime.joint_products import JOINT_PRODUCTS
from onnx_parity.exporter.rewrites.products_that_round import DOMAIN, packed, product_with_bits
from onnx_parity.exporter.rewrites.tables.norms import Norm, find_rms_norm

__all__ = ["FOR_ONNXRUNTIME"]

_DTYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)


class _NormOfSum(msgspec.Struct, frozen=True):
    total: ir.Node
    scale: ir.Value
    epsilon: float


def _find_norm_of_sum(node: ir.Node, walk: Walk) -> _NormOfSum | NoMatch:
    norm = _norm_of(node) if node.op_type == "RMSNormalization" else find_rms_norm(node, walk)
    if isinstance(norm, NoMatch):
        return norm
    x, scale = norm.inputs
    total = producer_of(x, "Add")
    if total is None or total.graph is not node.graph:
        return NoMatch("it normalizes no sum")
    sizes = [sizes_of(value) for value in (*total.inputs, x)]
    if None in sizes or sizes[0] != sizes[1] or len(sizes[2] or ()) not in (2, 3):
        return NoMatch("the summands have not the same two or three axes")
    if x.dtype not in _DTYPES or x.type != node.outputs[0].type or scale.type != x.type or not scale.is_initializer():
        return NoMatch("onnxruntime has no kernel for the dtype, or the scale is no weight")
    return _NormOfSum(total, scale, norm.epsilon)


def _norm_of(node: ir.Node) -> Norm | NoMatch:
    x, scale = node.inputs
    rank = len(x.shape) if x is not None and x.shape is not None else 0
    if x is None or scale is None or node.attributes.get_int("axis", -1) not in (-1, rank - 1):
        return NoMatch("it normalizes other axes than the last")
    return Norm((x, scale), node.attributes.get_float("epsilon", 1e-5))


def _normalize_sum(_node: ir.Node, found: _NormOfSum, walk: Walk) -> ir.Value:
    total = found.total
    sizes = total.outputs[0].shape
    norm = op(
        "SkipSimplifiedLayerNormalization", *total.inputs, found.scale, epsilon=found.epsilon, sizes=sizes,
        unread=("mean", "inverse", "sum"),
        domain=DOMAIN,
    )  # fmt: skip
    result = walk.add(norm, total)
    producer = result.producer()
    assert producer is not None
    for unread in producer.outputs[1:3]:
        unread.name = ""
    walk.replace(total, producer.outputs[3])
    return result


_BITS = {
    ir.DataType.INT2: 2, ir.DataType.UINT2: 2, ir.DataType.INT4: 4, ir.DataType.UINT4: 4,
    ir.DataType.INT8: 8, ir.DataType.UINT8: 8,
}  # fmt: skip


class _Blocks(msgspec.Struct, frozen=True):
    """A product with integers of a few bits, which have a scale for each block along the first axis."""

    x: ir.Value
    weight: ir.Node
    #: The integers, their scales, and their zero points, if they have some.
    known: Sequence[ir.TensorProtocol]
    bits: int
    block_size: int


def _find_blocks(node: ir.Node, walk: Walk) -> _Blocks | NoMatch:
    x, weight = node.inputs[0], producer_of(node.inputs[1], "DequantizeLinear")
    if x is None or weight is None or x.dtype not in _DTYPES or len(x.shape or ()) < 2:
        return NoMatch("it multiplies no rows with a dequantized matrix, or in a dtype without a kernel")
    size = weight.attributes.get_int("block_size", 0)
    if weight.attributes.get_int("axis", 1) != 0 or size < 16 or size & (size - 1):
        return NoMatch("its blocks are not those that onnxruntime has a kernel for")
    known = [known_tensor(value) for value in weight.inputs if value is not None]
    if walk.keeps_weights or None in known:
        return NoMatch("the integers or their scales may be replaced")
    tensors = [each for each in known if each is not None]
    bits = _BITS.get(tensors[0].dtype)
    rows = tensors[0].shape.numpy()
    if bits is None or len(rows) != 2 or rows[0] % size or tensors[1].dtype != x.dtype:
        return NoMatch("onnxruntime has no kernel for the dtypes or the sizes")
    return _Blocks(x, weight, tensors, bits, size)


def _multiply_blocks(node: ir.Node, found: _Blocks, walk: Walk) -> ir.Value:
    """As the operator wants them: rows of the transposed matrix, with several integers in each byte, and those with a
    sign as integers without one, whose zero point is the middle unless another one is given."""
    bits, size = found.bits, found.block_size
    integers, scales, *starts = found.known
    count, columns = integers.shape.numpy()
    blocks = count // size

    def matrix() -> Tensor:
        return packed(_unsigned(integers, bits).T.reshape(columns, blocks, size), bits)

    def factors() -> Tensor:
        return torch.from_numpy(scales.numpy().T.copy()).reshape(-1)

    names = [value.name for value in found.weight.inputs if value is not None]
    inputs = [
        walk.constants.table(("integers", names[0]), matrix, node),
        walk.constants.table(("scales", names[1]), factors, node),
    ]
    if starts or integers.dtype.name.startswith("U"):
        places = _unsigned(starts[0], bits) if starts else torch.zeros(blocks, columns, dtype=torch.uint8)
        inputs.append(walk.constants.table(("zero points", *names), lambda: packed(places.T, bits).reshape(-1), node))
    return product_with_bits(node, (found.x, *inputs), (count, columns), bits, size, walk)


def _unsigned(tensor: ir.TensorProtocol, bits: int) -> Tensor:
    is_signed = not tensor.dtype.name.startswith("U")
    return torch.from_numpy((tensor.numpy().astype(np.int16) + (is_signed << bits - 1)).astype(np.uint8))


FOR_ONNXRUNTIME = (
    *GROUP_QUERY_ATTENTION,
    *JOINT_PRODUCTS,
    Rewrite(name="product with few bits", at=("MatMul",), find=_find_blocks, write=_multiply_blocks),
    Rewrite(name="norm of a sum", at=("Mul", "RMSNormalization"), find=_find_norm_of_sum, write=_normalize_sum),
)
