"""Removes operators that leave an operand as it is, beside a constant or itself: x * 1, x / 1, x - 0, x + 0, x and
True, x or False, x and x, x or x.

Programs begin sums with 0 and scale by factors that are 1 in their configuration: Llama's rotations, and the branches
of networks that are trained with several and run with one.
"""

from __future__ import annotations

import math

import onnx_ir as ir
from onnx_ir.tensor_adapters import TorchTensor

from onnx_parity.exporter.passes.all_nodes import all_nodes
from onnx_parity.exporter.passes.matching import producer_of, sizes_of

__all__ = ["skip_neutral"]

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


def skip_neutral(model: ir.Model) -> None:
    """Let what reads such a result read the operand, unless the result is an output of the model."""
    for node in all_nodes(model.graph):
        if node.domain or node.op_type not in _NEUTRAL or node.outputs[0].is_graph_output():
            continue
        x, other = node.inputs
        if x is other and x is not None and node.op_type in _SAME_TWICE:
            node.outputs[0].replace_all_uses_with(x)
            continue
        _, either_side = _NEUTRAL[node.op_type]
        for kept, dropped in ((x, other), (other, x))[: 2 if either_side else 1]:
            sizes = sizes_of(kept)
            if kept is None or sizes is None or sizes != sizes_of(node.outputs[0]):
                continue
            if _is_neutral(node, kept, dropped):
                node.outputs[0].replace_all_uses_with(kept)
                break


def _is_neutral(node: ir.Node, kept: ir.Value, dropped: ir.Value | None) -> bool:
    op_type, result = node.op_type, node.outputs[0]
    # A weight may be replaced by another, whatever its values are now.
    tensor = dropped.const_value if dropped is not None and dropped.is_initializer() else None
    if type(tensor) is not TorchTensor or not tensor.raw.numel():
        return False
    neutral, _ = _NEUTRAL[op_type]
    first = tensor.raw.reshape(-1)[0].item()
    if first != neutral or not bool((tensor.raw == first).all()):
        return False
    if op_type == "Sub":
        return math.copysign(1, first) > 0  # x - (-0.0) is x + 0.0.
    if op_type == "Add" and tensor.raw.is_floating_point() and math.copysign(1, first) > 0:
        return _hides_sign_of_zero(kept, result)  # -0.0 + 0.0 is 0.0.
    return True


def _hides_sign_of_zero(x: ir.Value | None, result: ir.Value) -> bool:
    """Whether no output depends on the signs of the zeros in x, or the operator that computes it does not say them."""
    if any(producer_of(x, each) is not None for each in _HIDE_SIGNS):
        return True
    reached, seen = [result], {result}
    while reached:
        value = reached.pop()
        if value.is_graph_output():
            return False
        for node, _ in value.uses():
            if node.domain or node.op_type not in _PASS_SIGNS | _HIDE_SIGNS:
                return False
            if node.op_type in _PASS_SIGNS:
                reached += [each for each in node.outputs if each not in seen]
                seen.update(node.outputs)
    return True
