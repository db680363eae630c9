"""Operators that onnxruntime has and ONNX has not, for `target="onnxruntime"` alone.

    s = x + skip; y = RMSNormalization(s, scale)  ->  y, s = SkipSimplifiedLayerNormalization(x, skip, scale)

One walk over the activations instead of several, in each of the two places of a layer of a language model.
"""

from __future__ import annotations

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.matching import producer_of, sizes_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Rewrite, Walk, op
from onnx_parity.exporter.rewrites.tables.norms import Norm, find_rms_norm

__all__ = ["FOR_ONNXRUNTIME"]

#: The domain of onnxruntime's own operators.
_DOMAIN = "com.microsoft"
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
        domain=_DOMAIN,
    )  # fmt: skip
    result = walk.add(norm, total)
    producer = result.producer()
    assert producer is not None
    for unread in producer.outputs[1:3]:
        unread.name = ""
    walk.replace(total, producer.outputs[3])
    return result


FOR_ONNXRUNTIME = (
    Rewrite(name="norm of a sum", at=("Mul", "RMSNormalization"), find=_find_norm_of_sum, write=_normalize_sum),
)
