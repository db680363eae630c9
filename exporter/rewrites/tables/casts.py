"""Casts that are undone: to a dtype that has all numbers of the one before, and back to that.

Cast(Cast(x, to=wider), to=dtype of x)  ->  x
"""

from __future__ import annotations

import onnx_ir as ir
import torch

from onnx_parity.exporter.dtypes import TO_TORCH
from onnx_parity.exporter.rewrites.engine.matching import producer_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Rewrite, Walk, read_found

__all__ = ["CASTS"]

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


def _find_source(back: ir.Node, _walk: Walk) -> ir.Value | NoMatch:
    there = producer_of(back.inputs[0], "Cast")
    source = there.inputs[0] if there is not None else None
    if source is None:
        return NoMatch("what it casts was not cast before")
    if source.dtype is not back.outputs[0].dtype:
        return NoMatch("it casts to another dtype than that before the first cast")
    if not _keeps(source.dtype, back.inputs[0]):
        return NoMatch("the first cast loses numbers")
    return source


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


CASTS = (Rewrite(name="cast there and back", at=("Cast",), find=_find_source, write=read_found),)
