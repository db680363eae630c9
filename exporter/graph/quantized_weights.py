"""Finds weights for which onnxruntime would quantize something else, with scales that it finds itself.

For a MatMul of a DequantizeLinear it quantizes the other factor too, and so computes what the program does not. Where
the other factor is quantized in the program, it computes with its integers. For a layer whose input is the result of a
DequantizeLinear it quantizes a weight that is not, such as one with scales for its channels below opset 13.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx_parity.exporter.graph.graph import Node, Value, operator_name

__all__ = ["lone_weights", "quantizes_per_channel"]

_DEQUANTIZES = "quantized_decomposed::dequantize_"
#: What only moves the elements of a weight or of an input.
_MOVES = frozenset(
    f"aten::{name}"
    for name in ("t", "transpose", "permute", "view", "_unsafe_view", "reshape", "expand", "unsqueeze", "squeeze")
)


def lone_weights(nodes: Sequence[Node]) -> frozenset[Value]:
    """The dequantized constants that are never used together with something else that was dequantized."""
    weights = {
        output
        for node in nodes
        if operator_name(node.op).startswith(_DEQUANTIZES)
        for output in node.outputs
        if output is not None and _origin(next(node.inputs())).constant is not None
    }
    if not weights:
        return frozenset()
    paired = set()
    for node in nodes:
        origins = {_origin(each) for each in node.inputs()}
        dequantized = {each for each in origins if each.node and operator_name(each.node.op).startswith(_DEQUANTIZES)}
        if len(dequantized) > 1:
            paired |= dequantized
    return frozenset(weights - paired)


def quantizes_per_channel(nodes: Iterable[Node]) -> bool:
    """Whether something is quantized with one scale for each slice along an axis."""
    return any(
        "per_channel" in (name := operator_name(node.op))
        or (name == "onnx_parity::dequantize" and len(node.arguments["scale"].shape) > 0)
        or any(quantizes_per_channel(each.nodes) for each in node.blocks())
        for node in nodes
    )


def _origin(value: Value) -> Value:
    """What a value was before its elements were moved."""
    while value.node is not None and operator_name(value.node.op) in _MOVES:
        value = next(value.node.inputs())
    return value
