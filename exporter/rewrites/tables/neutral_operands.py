"""Operators that leave an operand as it is, beside a constant or itself.

    x * 1, x / 1, x - 0, x + 0, x and True, x or False, x and x, x or x  ->  x

Programs begin sums with 0 and scale by factors that are 1 in their configuration: Llama's rotations, and the branches
of networks that are trained with several and run with one.
"""

from __future__ import annotations

import math

import onnx_ir as ir
from onnx_ir.tensor_adapters import TorchTensor

from onnx_parity.exporter.rewrites.engine.all_nodes import onnx_operator
from onnx_parity.exporter.rewrites.engine.matching import producer_of, sizes_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Rewrite, Walk, read_found

__all__ = ["NEUTRAL_OPERANDS"]

#: The neutral element by operator, and whether it may be on either side.
_NEUTRAL: dict[str, tuple[float, bool]] = {
    "Mul": (1, True),
    "Div": (1, False),
    "Add": (0, True),
    "Sub": (0, False),
    "And": (True, True),
    "Or": (False, True),
}
#: Operators whose result is the operand, if both operands are the same value.
_SAME_TWICE = frozenset({"And", "Or"})
#: Operators for which signs of zeros in their inputs do not matter, and which do not define those in their results.
_HIDE_SIGNS = frozenset(
    {"BatchNormalization", "Conv", "ConvTranspose", "Gemm", "LayerNormalization", "MatMul", "Softmax"}
)
#: Operators whose results depend on the signs of zeros only by the signs of their own zeros.
_PASS_SIGNS = frozenset(
    {
        "Add", "Cast", "Concat", "Expand", "Flatten", "Gather", "Identity", "Mul", "Neg", "Pad", "Reshape", "Slice",
        "Split", "Squeeze", "Sub", "Transpose", "Unsqueeze",
    }
)  # fmt: skip


def _find_operand(node: ir.Node, _walk: Walk) -> ir.Value | NoMatch:
    x, other = node.inputs
    if x is other and x is not None and node.op_type in _SAME_TWICE:
        return x
    _, either_side = _NEUTRAL[node.op_type]
    reason = NoMatch("no operand has the shape of the result")
    for kept, dropped in ((x, other), (other, x))[: 2 if either_side else 1]:
        sizes = sizes_of(kept)
        if kept is None or sizes is None or sizes != sizes_of(node.outputs[0]):
            continue
        found = _reason_to_stay(node, kept, dropped)
        if found is None:
            return kept
        reason = found
    return reason


def _reason_to_stay(node: ir.Node, kept: ir.Value, dropped: ir.Value | None) -> NoMatch | None:
    # A weight may be replaced by another, whatever its values are now.
    tensor = dropped.const_value if dropped is not None and dropped.is_initializer() else None
    if type(tensor) is not TorchTensor or not tensor.raw.numel():
        return NoMatch("no operand is a constant")
    neutral, _ = _NEUTRAL[node.op_type]
    first = tensor.raw.reshape(-1)[0].item()
    if first != neutral or not bool((tensor.raw == first).all()):
        return NoMatch("the constant changes the operand")
    if node.op_type == "Sub" and math.copysign(1, first) < 0:
        return NoMatch("x - (-0.0) is x + 0.0, which is 0.0 for -0.0")
    is_added = node.op_type == "Add" and tensor.raw.is_floating_point() and math.copysign(1, first) > 0
    if is_added and not _hides_sign_of_zero(kept, node.outputs[0]):
        return NoMatch("-0.0 + 0.0 is 0.0, and an output may show the sign")
    return None


def _hides_sign_of_zero(x: ir.Value | None, result: ir.Value) -> bool:
    """Whether no output depends on the signs of the zeros in x, or the operator that computes it does not say them."""
    if producer_of(x, *_HIDE_SIGNS) is not None:
        return True
    reached, seen = [result], {result}
    while reached:
        value = reached.pop()
        if value.is_graph_output():
            return False
        for node, _ in value.uses():
            operator = onnx_operator(node)
            if operator in _PASS_SIGNS:
                reached += [each for each in node.outputs if each not in seen]
                seen.update(node.outputs)
            elif operator not in _HIDE_SIGNS:
                return False
    return True


NEUTRAL_OPERANDS = (
    Rewrite(
        name="operand beside a neutral one",
        at=tuple(_NEUTRAL),
        find=_find_operand,
        write=read_found,
        for_outputs=False,
    ),
)
