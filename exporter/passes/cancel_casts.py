"""Leaves out casts that are undone: to a dtype that has all numbers of the one before, and back to that."""

from __future__ import annotations

import onnx_ir as ir
import torch

from onnx_parity.exporter.dtypes import TO_TORCH
from onnx_parity.exporter.passes.all_nodes import all_nodes
from onnx_parity.exporter.passes.matching import producer_of

__all__ = ["cancel_casts"]

#: The binary digits of the largest number up to which all integers are numbers of a dtype.
_DIGITS = {
    torch.bool: 1,
    torch.int8: 7,
    torch.uint8: 8,
    torch.int16: 15,
    torch.int32: 31,
    torch.int64: 63,
    torch.bfloat16: 8,
    torch.float16: 11,
    torch.float32: 24,
    torch.float64: 53,
}


def cancel_casts(model: ir.Model) -> None:
    """Let what reads a tensor that was cast there and back read it as it was before."""
    for node in all_nodes(model.graph):
        if node.op_type != "Cast" or node.domain:
            continue
        out, there = node.outputs[0], producer_of(node.inputs[0], "Cast")
        source = there.inputs[0] if there is not None else None
        if source is None or source.dtype is not out.dtype or not _keeps(source.dtype, node.inputs[0]):
            continue
        if out.is_graph_output():  # It keeps its name.
            node.op_type = "Identity"
            node.attributes.clear()
            node.replace_input_with(0, source)
        else:
            out.replace_all_uses_with(source)


def _keeps(dtype: ir.DataType | None, wide: ir.Value | None) -> bool:
    """Whether a value's dtype has every number of another dtype."""
    if dtype is None or wide is None or wide.dtype is None:
        return False
    before, after = TO_TORCH.get(dtype), TO_TORCH.get(wide.dtype)
    if before not in _DIGITS or after not in _DIGITS:
        return False
    if after.is_floating_point and not before.is_floating_point:
        return _DIGITS[before] <= _DIGITS[after]
    return before.is_floating_point is after.is_floating_point and torch.promote_types(before, after) is after
