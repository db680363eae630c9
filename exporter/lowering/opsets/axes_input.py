"""Squeeze, Unsqueeze and the reductions, whose axes are an attribute in early opsets and an input later; Transpose;
since when quantization takes an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["AxesForms"]

Reduction = Literal["Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "LogSumExp", "SumSquare"]


class AxesForms(Base):
    """Operators over axes."""

    def _with_axes(self, op: str, x: Value, axes: Sequence[int] | None, since: int, **attributes: Any) -> Value:
        if axes is None or self.opset < since:
            result: Value = self.op(op, x, axes_i=axes, **attributes)
            return result
        result = self.op(op, x, self.const(list(axes), torch.int64), **attributes)
        return result

    def has_quantization(self, per_channel: bool) -> bool:
        """Whether QuantizeLinear and DequantizeLinear are used, also with one scale for each slice along an axis.

        Below opset 13 they have one scale only. A program with both kinds has neither there: for a layer between two
        of these operators onnxruntime would quantize a weight that was computed in another way anew.
        """
        return self.opset >= (13 if per_channel or self.quantizes_per_channel else 10)

    def has_blocks(self) -> bool:
        """Whether DequantizeLinear takes a scale for each block along an axis."""
        return self.opset >= 21

    def widths_of_integers(self) -> Sequence[int]:
        """How many bits the integers have that DequantizeLinear reads as weights."""
        return (8,) if self.opset < 21 else (4, 8) if self.opset < 25 else (2, 4, 8)

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        if not axes:
            return x
        result = self._with_axes("Squeeze", x, axes, 13)
        if x.shape is not None:
            gone = {axis % len(x.shape) for axis in axes}
            result.shape = tuple(size for axis, size in enumerate(x.shape) if axis not in gone)
        return result

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value:
        if not axes:
            return x
        result = self._with_axes("Unsqueeze", x, axes, 13)
        if x.shape is not None:
            sizes = iter(x.shape)
            rank = len(x.shape) + len(axes)
            new = {axis % rank for axis in axes}
            result.shape = tuple(1 if axis in new else next(sizes) for axis in range(rank))
            if x.counts is not None:
                result.counts = [axis for axis in range(rank) if axis not in new][x.counts] - rank
        return result

    def reduce(self, how: Reduction, x: Value, axes: Sequence[int] | None, keepdim: bool) -> Value:
        """Reduce over `axes`, or over all axes for None."""
        since = 13 if how == "Sum" else 18
        if axes is not None and not axes:
            return x
        result = self._with_axes(f"Reduce{how}", x, axes, since, keepdims_i=keepdim)
        if x.shape is not None:
            gone = {axis % len(x.shape) for axis in (range(len(x.shape)) if axes is None else axes)}
            kept = [(axis, size) for axis, size in enumerate(x.shape) if keepdim or axis not in gone]
            result.shape = tuple(1 if axis in gone else size for axis, size in kept)
        return result

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        if list(permutation) == list(range(len(permutation))):
            return x
        result = self.op("Transpose", x, perm_i=permutation)
        return shaped(result, None if x.shape is None else [x.shape[axis] for axis in permutation])
