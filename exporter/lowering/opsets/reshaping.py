"""Reading and changing shapes: sizes, Reshape, Expand, and tensors filled with one number."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnx_parity.exporter.graph.graph import Size, Varying
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import same_size, shaped
from onnx_parity.exporter.lowering.values.value import Number, Value

__all__ = ["ReshapeForms"]


#: How many equal elements are written into the model, at most 8 KB; an operator makes more of them at run time.
_MOST_FILLED = 1024


class ReshapeForms(Base):
    """Sizes, reshape, expand and full, for static and dynamic sizes."""

    def size(self, x: Value, axis: int) -> Value:
        """One size of `x`, as an int64 tensor of one element."""
        if self.opset >= 15:
            return self.op("Shape", x, start_i=axis, end_i=axis + 1)
        return self.slice(self.op("Shape", x), [0], [axis], [axis + 1])

    def reshape(self, x: Value, sizes: Sequence[Size]) -> Value:
        """Reshape. One dynamic size becomes -1, and those of unchanged axes become 0, so that few are computed."""
        return shaped(self._reshape(x, sizes), None if -1 in [s for s in sizes if isinstance(s, int)] else sizes)

    def _reshape(self, x: Value, sizes: Sequence[Size]) -> Value:
        if any(isinstance(size, int) and size == 0 for size in sizes):
            if self.opset >= 14:
                return self.op("Reshape", x, self.ints(sizes), allowzero_i=1)
            return self._reshape_empty(x, sizes)
        shape: list[Size] = list(sizes)
        inferred = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
        if len(inferred) > 1 and x.shape is not None:
            kept = [
                a
                for a in inferred
                if a < len(x.shape) and not isinstance(x.shape[a], int) and same_size(x.shape[a], shape[a])
            ]
            if len(kept) >= len(inferred) - 1:
                for axis in kept[: len(inferred) - 1] if len(kept) == len(inferred) else kept:
                    shape[axis] = 0
                inferred = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
        if len(inferred) == 1:
            shape[inferred[0]] = -1
        return self.op("Reshape", x, self.ints(shape))

    def _reshape_empty(self, x: Value, sizes: Sequence[Size]) -> Value:
        """A new empty tensor. Before opset 14, which has allowzero, a 0 in the shape copies the size of the input."""
        return self.full(sizes, 0, x.dtype)

    def expand(self, x: Value, sizes: Sequence[Size]) -> Value:
        """Broadcast `x`, whose rank may be lower, to `sizes`."""
        if any(isinstance(size, int) and size == 0 for size in sizes):
            return self.full(sizes, 0, x.dtype)
        missing = len(sizes) - x.rank
        own: list[Size] = [*([1] * missing), *x.sizes]
        if self.opset >= 8:
            # Where the size of an axis is 1, Expand leaves that axis as it is, and need not be given a dynamic one.
            wanted = [
                1 if not isinstance(size, int) and same_size(before, size) else size
                for before, size in zip(own, sizes, strict=True)
            ]
            return shaped(self.op("Expand", x, self.ints(wanted)), sizes)
        if missing:
            x = self.unsqueeze(x, list(range(missing)))
        repeats: list[Size] = [
            size if isinstance(before, int) and before == 1 else 1 for before, size in zip(own, sizes, strict=True)
        ]
        return shaped(self.op("Tile", x, self.ints(repeats)), sizes)

    def full(self, sizes: Sequence[Size], value: Number, dtype: torch.dtype) -> Value:
        """A tensor filled with one number."""
        result = shaped(self._filled(sizes, value, dtype), sizes)
        result.filled = value
        return result

    def _filled(self, sizes: Sequence[Size], value: Number, dtype: torch.dtype) -> Value:
        is_known = not isinstance(value, Varying)
        static = is_known and all(isinstance(size, int) for size in sizes)
        if static and math.prod(int(size) for size in sizes) <= _MOST_FILLED:
            return self.const(torch.full([int(size) for size in sizes], value, dtype=dtype))  # type: ignore[arg-type]
        if dtype is torch.bfloat16 and self.opset < 20:
            return self.cast(self._filled(sizes, value, torch.float32), dtype)
        if self.opset >= 9 and is_known:
            return self.op("ConstantOfShape", self.ints(sizes), value_t=torch.tensor([value], dtype=dtype))
        one = self.scalar(value, dtype)
        if self.opset >= 8:
            return self.op("Expand", one, self.ints(sizes))
        ones: Value = self.op("Reshape", one, self.const([1] * len(sizes), torch.int64)) if sizes else one
        return self.op("Tile", ones, self.ints(sizes))
