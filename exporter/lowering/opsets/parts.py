"""Parts of tensors: slices, splits, padding."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from exporter.capture.graph import Size
from exporter.errors import Unsupported
from exporter.lowering.opsets.base import Base
from exporter.lowering.values import Number, Value

__all__ = ["PartForms"]


class PartForms(Base):
    """Slicing, splitting, padding."""

    def slice(
        self,
        x: Value,
        axes: Sequence[int],
        starts: Sequence[Size],
        ends: Sequence[Size],
        steps: Sequence[int] | None = None,
    ) -> Value:
        if steps is not None and all(step == 1 for step in steps):
            steps = None
        if self.opset >= 10:
            axes_value = self.const(list(axes), torch.int64)
            steps_value = None if steps is None else self.const(list(steps), torch.int64)
            operands = [x, self.ints(starts), self.ints(ends), axes_value]
            return self.op("Slice", *operands, *([] if steps_value is None else [steps_value]))
        if not all(isinstance(bound, int) for bound in (*starts, *ends)):
            raise Unsupported("Slice takes bounds that vary only from opset 10", since=10)
        if steps is None:
            return self.op("Slice", x, axes_i=axes, starts_i=starts, ends_i=ends)
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            size = x.sizes[axis]
            if not isinstance(size, int):
                raise Unsupported("a slice with a step over an axis that varies needs Slice of opset 10", since=10)
            picked = list(range(size))[slice(int(start), int(end), step)]
            x = self.op("Gather", x, self.const(picked, torch.int64), axis_i=axis)
        return x

    def split(self, x: Value, axis: int, sizes: Sequence[Size]) -> list[Value]:
        count = len(sizes)
        if count == 1:
            return [x]
        if self.opset < 13:
            if not all(isinstance(size, int) for size in sizes):
                raise Unsupported("Split takes sizes that vary only from opset 13", since=13)
            return list(self.op("Split", x, axis_i=axis, split_i=sizes, outputs=count))
        return list(self.op("Split", x, self.ints(sizes), axis_i=axis, outputs=count))

    def pad(
        self, x: Value, before: Sequence[Size], after: Sequence[Size], mode: str = "constant", value: Number = 0
    ) -> Value:
        """Pad every axis; negative numbers crop."""
        pads = [*before, *after]
        if all(isinstance(pad, int) and pad == 0 for pad in pads):
            return x
        if self.opset >= 11:
            fill = self.scalar(value, x.dtype) if mode == "constant" else None
            operands = [x, self.ints(pads), *([] if fill is None else [fill])]
            return self.op("Pad", *operands, mode_s=mode)
        if not all(isinstance(pad, int) for pad in pads):
            raise Unsupported("Pad takes amounts that vary only from opset 11", since=11)
        if not x.dtype.is_floating_point:
            return self._pad_with_constants(x, pads, mode, value)
        return self.op("Pad", x, mode_s=mode, pads_i=pads, value_f=value)

    def _pad_with_constants(self, x: Value, pads: Sequence[Size], mode: str, value: Number) -> Value:
        """Before opset 11, Pad takes floats only; of integers, constant blocks are joined on."""
        if mode != "constant":
            raise Unsupported(f"Pad in {mode} mode takes {x.dtype} only from opset 11", since=11)
        shape = [int(size) for size in x.sizes]
        rank = len(shape)
        for axis in range(rank):
            low, high = int(pads[axis]), int(pads[axis + rank])
            if low < 0 or high < 0:
                x = self.slice(x, [axis], [max(0, -low)], [shape[axis] + min(0, high)])
                shape[axis] += min(0, low) + min(0, high)
            blocks = [
                self.full([*shape[:axis], amount, *shape[axis + 1 :]], value, x.dtype) if amount > 0 else None
                for amount in (low, high)
            ]
            parts = [part for part in (blocks[0], x, blocks[1]) if part is not None]
            x = self.op("Concat", *parts, axis_i=axis) if len(parts) > 1 else x
            shape[axis] += max(0, low) + max(0, high)
        return x
