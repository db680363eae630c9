"""Paddings that the convolution or the pooling after them does itself, as in networks of TensorFlow.

    Conv(Pad(x, 0), pads=p)  ->  Conv(x, pads=p + those of the Pad)

NASNet has 20 nodes fewer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.matching import ints_of, number_of, producer_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, op

__all__ = ["PADS"]

#: What each operator pads its input with.
_FILLERS = {"Conv": 0.0, "AveragePool": 0.0, "MaxPool": -math.inf}


class _Found(msgspec.Struct, frozen=True):
    x: ir.Value | None
    #: By how much more the operator pads: at the beginnings of the axes, and at their ends.
    amounts: Sequence[int]


def _find_pad(node: ir.Node, _walk: Walk) -> _Found | NoMatch:
    pad = producer_of(node.inputs[0], "Pad")
    if pad is None:
        return NoMatch("its input is not padded")
    amounts = _amounts_of(pad)
    if amounts is None or _filler_of(pad) != _FILLERS[node.op_type]:
        return NoMatch("the program pads with something else, or by amounts that are not known")
    rank = len(amounts) // 2
    if min(amounts) < 0 or any(amounts[axis] for axis in (0, 1, rank, rank + 1)):
        return NoMatch("the program pads the batch or the channels, or takes elements away")
    spatial = [*amounts[2:rank], *amounts[rank + 2 :]]
    return _reason_to_stay(node, spatial) or _Found(pad.inputs[0], spatial)


def _reason_to_stay(node: ir.Node, amounts: Sequence[int]) -> NoMatch | None:
    """Why a convolution or a pooling may not pad by so much more."""
    if "auto_pad" in node.attributes and node.attributes["auto_pad"].as_string() != "NOTSET":
        return NoMatch("it chooses its padding itself")
    if node.op_type == "Conv":
        return None
    kernel = _ints(node, "kernel_shape")
    # A window with gaps may have none of its elements outside of the padding.
    if any(each != 1 for each in _ints(node, "dilations")) or any(
        amount >= size for amount, size in zip(amounts, kernel * 2, strict=True)
    ):
        return NoMatch("a window may lie in the padding")
    if len(node.outputs) > 1 and node.outputs[1].uses():
        return NoMatch("the places of the maxima are those in the padded input")
    if any(_ints(node, "pads")) or ("ceil_mode" in node.attributes and node.attributes["ceil_mode"].as_int()):
        return NoMatch("it pads already, or rounds its size up")
    return None


def _ints(node: ir.Node, name: str) -> list[int]:
    return list(node.attributes[name].as_ints()) if name in node.attributes else []


def _amounts_of(pad: ir.Node) -> list[int] | None:
    """By how much a Pad pads each axis, at the beginnings and at the ends, which are an attribute in early opsets."""
    if "mode" in pad.attributes and pad.attributes["mode"].as_string() != "constant":
        return None
    if "pads" in pad.attributes:
        return _ints(pad, "pads")
    return ints_of(pad.inputs[1]) if len(pad.inputs) < 4 else None


def _filler_of(pad: ir.Node) -> float | None:
    if "pads" in pad.attributes:
        return pad.attributes["value"].as_float() if "value" in pad.attributes else 0.0
    return number_of(pad.inputs[2]) if len(pad.inputs) > 2 and pad.inputs[2] is not None else 0.0


def _pad_by_more(node: ir.Node, found: _Found, _walk: Walk) -> Op:
    own = _ints(node, "pads") or [0] * len(found.amounts)
    pads = [a + b for a, b in zip(own, found.amounts, strict=True)]
    if node.op_type == "AveragePool":
        # What the program pads with counts as elements.
        return op("AveragePool", found.x, attributes_of=node, pads=pads, count_include_pad=1)
    return op(node.op_type, found.x, *node.inputs[1:], attributes_of=node, pads=pads)


PADS = (Rewrite(name="padding before a window", at=tuple(_FILLERS), find=_find_pad, write=_pad_by_more),)
