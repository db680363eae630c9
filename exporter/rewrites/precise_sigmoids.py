"""Sigmoids of which every digit counts, however small they are.

    Sigmoid(x)  ->  1 / (1 + exp(-x))

onnxruntime's sigmoid is wrong by what 1 is rounded by, over its whole range: below -17 it returns 0 in float32, where
torch returns 1e-9. A logarithm or a quotient of it is infinite then, as by `torch.log(torch.sigmoid(x))`, by a binary
cross entropy of probabilities and by their logits. torch's kernel computes the quotient too.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.all_nodes import onnx_operator
from onnx_parity.exporter.rewrites.engine.matching import number_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, op

__all__ = ["PRECISE_SIGMOIDS"]

_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
#: Operators by which small numbers decide, and the place of the operand.
_DEPENDING = {"Log": 0, "Reciprocal": 0, "Sqrt": 0, "Pow": 0, "Div": 1}
#: Operators that pass on small numbers as they are, or beside others.
_PASSING = frozenset(
    {
        "Add", "Cast", "Clip", "Concat", "Div", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity",
        "Max", "Min", "Mul", "Neg", "Pad", "Reshape", "Slice", "Split", "Squeeze", "Sub", "Transpose", "Unsqueeze",
        "Where",
    }
)  # fmt: skip


def _find_use(sigmoid: ir.Node, _walk: Walk) -> ir.Value | NoMatch:
    x = sigmoid.inputs[0]
    reached, seen = [sigmoid.outputs[0]], set(sigmoid.outputs)
    while reached:
        for node, place in reached.pop().uses():
            operator = onnx_operator(node)
            is_square = operator == "Pow" and (number_of(node.inputs[1]) or 0) >= 1
            if _DEPENDING.get(operator) == place and not is_square and x is not None:
                return x
            if operator in _PASSING or is_square:
                reached += [each for each in node.outputs if each not in seen]
                seen.update(node.outputs)
    return NoMatch("nothing divides by it or takes its logarithm or its root")


def _divide(sigmoid: ir.Node, x: ir.Value, walk: Walk) -> Op:
    dtype = x.dtype
    assert dtype is not None
    if dtype not in _HALVES:
        return _quotient(sigmoid, x, dtype, walk)
    # The exponential of 12 is beyond float16.
    wide = op("Cast", x, to=ir.DataType.FLOAT.value, sizes=x.shape, dtype=ir.DataType.FLOAT)
    return op("Cast", _quotient(sigmoid, wide, ir.DataType.FLOAT, walk), to=dtype.value)


def _quotient(sigmoid: ir.Node, x: ir.Value | Op, dtype: ir.DataType, walk: Walk) -> Op:
    sizes, one = sigmoid.outputs[0].shape, walk.constants.number(1, dtype, sigmoid)
    exponential = op("Exp", op("Neg", x, sizes=sizes, dtype=dtype), sizes=sizes, dtype=dtype)
    return op("Reciprocal", op("Add", exponential, one, sizes=sizes, dtype=dtype), sizes=sizes, dtype=dtype)


PRECISE_SIGMOIDS = (Rewrite(name="sigmoid that is divided by", at=("Sigmoid",), find=_find_use, write=_divide),)
