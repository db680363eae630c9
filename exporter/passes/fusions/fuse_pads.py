"""Lets a convolution or a pooling pad its input, where the program pads it before, as networks of TensorFlow do."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from onnx_parity.exporter.passes.all_nodes import all_nodes
from onnx_parity.exporter.passes.matching import ints_of, number_of, producer_of

__all__ = ["fuse_pads"]

#: What each operator pads its input with.
_FILLERS = {"Conv": 0.0, "AveragePool": 0.0, "MaxPool": -math.inf}


def fuse_pads(model: ir.Model) -> None:
    """Read the input of each such Pad instead of its result, and pad by as much more. NASNet has 20 nodes fewer."""
    for node in all_nodes(model.graph):
        if node.domain or node.op_type not in _FILLERS:
            continue
        pad = producer_of(node.inputs[0], "Pad")
        amounts = _amounts_of(pad) if pad is not None and _filler_of(pad) == _FILLERS[node.op_type] else None
        if pad is None or amounts is None:
            continue
        rank = len(amounts) // 2
        spatial = [*amounts[2:rank], *amounts[rank + 2 :]]
        if min(amounts) < 0 or any(amounts[axis] for axis in (0, 1, rank, rank + 1)) or not _takes(node, spatial):
            continue
        own = _ints(node, "pads") or [0] * len(spatial)
        node.attributes["pads"] = ir.AttrInt64s("pads", [a + b for a, b in zip(own, spatial, strict=True)])
        if node.op_type == "AveragePool":
            # What the program pads with counts as elements.
            node.attributes["count_include_pad"] = ir.AttrInt64("count_include_pad", 1)
        node.replace_input_with(0, pad.inputs[0])


def _takes(node: ir.Node, amounts: Sequence[int]) -> bool:
    """Whether a convolution or a pooling may pad by so much more."""
    if "auto_pad" in node.attributes and node.attributes["auto_pad"].as_string() != "NOTSET":
        return False
    if node.op_type == "Conv":
        return True
    # A window has to reach beyond the padding: one with gaps may have none of its elements there.
    if any(each != 1 for each in _ints(node, "dilations")):
        return False
    kernel = _ints(node, "kernel_shape")
    if any(amount >= size for amount, size in zip(amounts, kernel * 2, strict=True)):
        return False
    if len(node.outputs) > 1 and node.outputs[1].uses():
        return False  # The places of the maxima are those in the padded input.
    return not any(_ints(node, "pads")) and not ("ceil_mode" in node.attributes and _int(node, "ceil_mode"))


def _ints(node: ir.Node, name: str) -> list[int]:
    return list(node.attributes[name].as_ints()) if name in node.attributes else []


def _int(node: ir.Node, name: str) -> int:
    return node.attributes[name].as_int()


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
