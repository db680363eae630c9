"""Convolutions along tokens, each channel alone and over the tokens up to it, as ONNX's operator of opset 27.

    Slice(Conv(x, pads=[k-1, k-1]), 0, tokens)  ->  CausalConvWithState(x)
    Conv(x, pads=[k-1, 0])                      ->  CausalConvWithState(x)
    Conv(Concat(state, x))                      ->  CausalConvWithState(x, state)
    y * Sigmoid(y)                              ->  y with the activation "silu"

What comes after the convolution of a state, the last tokens of the Concat, stays as it is.
"""

from __future__ import annotations

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.matching import axis_of, ints_of, pairs_of, producer_of, sizes_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, op

__all__ = ["CAUSAL_CONVOLUTIONS"]

_OPERATOR = "CausalConvWithState"
_DTYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


class _Found(msgspec.Struct, frozen=True):
    x: ir.Value
    conv: ir.Node
    state: ir.Value | None = None


def _find_cut(node: ir.Node, _walk: Walk) -> _Found | NoMatch:
    conv = producer_of(node.inputs[0], "Conv")
    if conv is None:
        return NoMatch("it takes no part of a convolution")
    found = _reached(conv)
    if isinstance(found, NoMatch):
        return found
    kernel, pads = found
    x, steps = conv.inputs[0], ints_of(node.inputs[4]) if len(node.inputs) > 4 else [1]
    sizes, kept = sizes_of(x), sizes_of(node.outputs[0])
    is_start = len(node.inputs) > 3 and ints_of(node.inputs[1]) == [0] and ints_of(node.inputs[3]) in ([2], [-1])
    if x is None or pads != [kernel - 1, kernel - 1] or not is_start or steps != [1] or sizes is None or sizes != kept:
        return NoMatch("it does not keep as many results as there are tokens, from the first on")
    return _Found(x, conv)


def _find_conv(node: ir.Node, _walk: Walk) -> _Found | NoMatch:
    found = _reached(node)
    if isinstance(found, NoMatch):
        return found
    kernel, pads = found
    x = node.inputs[0]
    if x is not None and pads == [kernel - 1, 0]:
        return _Found(x, node)
    join = producer_of(x, "Concat")
    if pads != [0, 0] or join is None or len(join.inputs) != 2 or axis_of(join) not in (2, -1):
        return NoMatch("it does not see the tokens before each of as many")
    state, x = join.inputs
    sizes = sizes_of(state)
    if x is None or sizes is None or sizes[2] != kernel - 1:
        return NoMatch("the state before the tokens is not as long as the kernel is but for one")
    return _Found(x, node, state)


def _reached(conv: ir.Node) -> tuple[int, list[int]] | NoMatch:
    """The size of the kernel, and the padding, of a convolution of each channel alone without steps and gaps."""
    steps = [list(conv.attributes[name].as_ints()) for name in ("strides", "dilations") if name in conv.attributes]
    sizes, channels = sizes_of(conv.inputs[1]), sizes_of(conv.inputs[0])
    group = conv.attributes["group"].as_int() if "group" in conv.attributes else 1
    if sizes is None or channels is None or len(sizes) != 3 or not isinstance(sizes[2], int):
        return NoMatch("its kernel is not one along a single axis, of a size that is known")
    if sizes[:2] != (channels[1], 1) or group != channels[1]:
        return NoMatch("it mixes channels")
    if any(each != [1] for each in steps) or "auto_pad" in conv.attributes:
        return NoMatch("it has steps or gaps, or chooses its padding itself")
    if conv.inputs[0] is None or conv.inputs[0].dtype not in _DTYPES:
        return NoMatch("CausalConvWithState does not take its dtype")
    return sizes[2], list(conv.attributes["pads"].as_ints()) if "pads" in conv.attributes else [0, 0]


def _causal(_node: ir.Node, found: _Found, _walk: Walk) -> Op:
    weight, *bias = found.conv.inputs[1:]
    state = [] if found.state is None else [bias[0] if bias else None, found.state]
    return op(_OPERATOR, found.x, weight, *(state or bias), unread=("state",))


def _find_silu(node: ir.Node, _walk: Walk) -> ir.Node | NoMatch:
    for one, other in pairs_of(node):
        sigmoid, conv = producer_of(other, "Sigmoid"), producer_of(one, _OPERATOR)
        if (
            sigmoid is not None
            and conv is not None
            and sigmoid.inputs[0] is one
            and "activation" not in conv.attributes
        ):
            is_read_here = {use.node for use in one.uses()} == {node, sigmoid} and len(sigmoid.outputs[0].uses()) == 1
            return conv if is_read_here and not one.is_graph_output() else NoMatch("something else reads its input")
    return NoMatch("it does not multiply a causal convolution by its sigmoid")


def _activated(_node: ir.Node, conv: ir.Node, _walk: Walk) -> Op:
    return op(_OPERATOR, *conv.inputs, activation="silu", unread=("state",))


CAUSAL_CONVOLUTIONS = (
    Rewrite(name="causal convolution, cut off", at=("Slice",), since=27, find=_find_cut, write=_causal),
    Rewrite(name="causal convolution", at=("Conv",), since=27, find=_find_conv, write=_causal),
    Rewrite(name="causal convolution with SiLU", at=("Mul",), since=27, find=_find_silu, write=_activated),
)
