"""Parts of tensors: slices and splits."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from exporter.capture.graph import Size
from exporter.errors import Unsupported
from exporter.lowering.opsets.base import Base
from exporter.lowering.values import Value

__all__ = ["PartForms"]


class PartForms(Base):
    """Slicing and splitting."""

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
