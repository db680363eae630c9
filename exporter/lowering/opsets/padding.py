"""Pad, to which later opsets added modes and dtypes. A mode that it lacks is composed by concatenating blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.opsets.slice_split import AXIS_END
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Number, Value

__all__ = ["PadMode", "PaddingForms"]

#: ONNX's names of the modes: a constant, the reflection without the edge, the edge repeated, the opposite end.
PadMode: TypeAlias = Literal["constant", "reflect", "edge", "wrap"]


class PaddingForms(Base):
    """Padding in every mode and dtype, at every opset."""

    def pad(
        self, x: Value, before: Sequence[Size], after: Sequence[Size], mode: PadMode = "constant", value: Number = 0
    ) -> Value:
        """Pad every axis; negative amounts crop."""
        result = self._padded(x, [*before, *after], mode, value)
        if result is x or x.shape is None:
            return result
        return shaped(result, [low + size + high for low, size, high in zip(before, x.shape, after, strict=True)])

    def _padded(self, x: Value, amounts: Sequence[Size], mode: PadMode, value: Number) -> Value:
        is_known = all(isinstance(amount, int) for amount in amounts)
        if mode == "constant" or not is_known:
            return self._pad(x, amounts, mode, value)
        grown = [max(0, int(amount)) for amount in amounts]
        cropped = [min(0, int(amount)) for amount in amounts]
        if mode == "wrap":
            # In this mode torch crops before it pads, in all others after it.
            return self._pad(self._cropped(x, cropped), grown, mode, value)
        return self._cropped(self._pad(x, grown, mode, value), cropped)

    def _cropped(self, x: Value, amounts: Sequence[int]) -> Value:
        rank = len(amounts) // 2
        axes = [axis for axis in range(rank) if amounts[axis] or amounts[axis + rank]]
        if not axes:
            return x
        result = self.slice(
            x, axes, [-amounts[axis] for axis in axes], [amounts[axis + rank] or AXIS_END for axis in axes]
        )
        if x.shape is not None:
            shaped(result, [size + amounts[axis] + amounts[axis + rank] for axis, size in enumerate(x.shape)])
        return result

    def _pad(self, x: Value, amounts: Sequence[Size], mode: PadMode, value: Number) -> Value:
        if all(isinstance(amount, int) and amount == 0 for amount in amounts):
            return x
        if self.opset >= (19 if mode == "wrap" else 11) and not self._fails_if_empty(x, amounts, mode):
            fill = self.scalar(value, x.dtype) if mode == "constant" else None
            return self.op("Pad", x, self.ints(amounts), *([] if fill is None else [fill]), mode_s=mode)
        if not all(isinstance(amount, int) for amount in amounts):
            since = 19 if mode == "wrap" else 11
            self.require_opset(since, f"ONNX's Pad in mode {mode!r} does not take dynamic amounts at this opset")
        if mode != "wrap" and x.dtype.is_floating_point:
            return self.op("Pad", x, mode_s=mode, pads_i=amounts, value_f=value)
        rank = len(amounts) // 2
        for axis in range(rank):
            x = self._padded_axis(x, axis, int(amounts[axis]), int(amounts[axis + rank]), mode, value)
        return x

    def _fails_if_empty(self, x: Value, amounts: Sequence[Size], mode: PadMode) -> bool:
        """Whether onnxruntime has no Pad where an axis that is not padded is empty, as that of the batch may be."""
        if mode != "wrap" or x.shape is None or not all(isinstance(amount, int) for amount in amounts):
            return False
        rank = len(amounts) // 2
        left = (x.shape[axis] for axis in range(rank) if not amounts[axis] and not amounts[axis + rank])
        return any(not isinstance(size, int) for size in left)

    def _padded_axis(self, x: Value, axis: int, before: int, after: int, mode: PadMode, value: Number) -> Value:
        """One axis padded by concatenating a block at each end, or cropped."""
        sizes = x.sizes
        if before < 0 or after < 0:
            x = self.slice(x, [axis], [max(0, -before)], [min(0, after) or AXIS_END])
        parts = [
            self._block(x, sizes, axis, before, mode, value, at_end=False) if before > 0 else None,
            x,
            self._block(x, sizes, axis, after, mode, value, at_end=True) if after > 0 else None,
        ]
        present = [part for part in parts if part is not None]
        result = self.op("Concat", *present, axis_i=axis) if len(present) > 1 else x
        return shaped(result, (*sizes[:axis], sizes[axis] + before + after, *sizes[axis + 1 :]))

    def _block(
        self, x: Value, sizes: Sequence[Size], axis: int, amount: int, mode: PadMode, value: Number, *, at_end: bool
    ) -> Value:
        if mode == "constant":
            return self.full([*sizes[:axis], amount, *sizes[axis + 1 :]], value, x.dtype)
        if mode == "wrap":
            return self.slice(x, [axis], [0 if at_end else -amount], [amount if at_end else AXIS_END])
        if mode == "edge":
            edge = self.slice(x, [axis], [-1 if at_end else 0], [AXIS_END if at_end else 1])
            return self.op("Concat", *[edge] * amount, axis_i=axis) if amount > 1 else edge
        mirrored = self.slice(x, [axis], [-amount - 1 if at_end else 1], [-1 if at_end else amount + 1])
        return self.op("Gather", mirrored, self.const(list(range(amount))[::-1], torch.int64), axis_i=axis)
