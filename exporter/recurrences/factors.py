"""The operands of products and sums in loops over tokens, of which numbers are values too."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Node, Value
from onnx_parity.exporter.recurrences.all_tokens import NotForAllTokens

__all__ = ["both_operands", "factors_of"]

_aten = torch.ops.aten


def both_operands(node: Node) -> list[tuple[Value, Value]]:
    """The two operands of an operator, in both orders."""
    one, other = (_as_value(node.arguments[name], node) for name in ("self", "other"))
    return [(one, other), (other, one)]


def factors_of(node: Node) -> list[tuple[Value, Value]]:
    """The two factors of a product, in both orders; a divisor that is a number is one too."""
    if node.op is _aten.mul.Tensor:
        return both_operands(node)
    divisor = node.arguments.get("other")
    if node.op is _aten.div.Tensor and isinstance(divisor, (int, float)) and divisor:
        return [(node.arguments["self"], _as_value(1 / divisor, node))]
    return []


def _as_value(operand: Any, node: Node) -> Value:
    if isinstance(operand, Value):
        return operand
    (result,) = node.outputs
    if result is None or not isinstance(operand, (int, float)):
        raise NotForAllTokens
    return Value(result.dtype, (), constant=torch.tensor(operand, dtype=result.dtype))
