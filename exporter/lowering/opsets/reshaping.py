"""Reading and changing shapes: sizes, Reshape, Expand, and tensors filled with one number."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnx_parity.exporter.graph.graph import Size, Varying
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import may_be_empty, same_size, shaped
from onnx_parity.exporter.lowering.values.value import Number, Value

__all__ = ["ReshapeForms"]


#: How many equal elements are written into the model, at most 8 KB; an operator makes more of them at run time.
_MOST_FILLED = 1024


def _empties(size: Size, other: Size) -> bool:
    """Whether another dynamic size is 0 where a dynamic one is: a factor of one is a factor of the other."""
    if isinstance(size, int) or isinstance(other, int):
        return False
    return set(size.node.expr.factors()[1]).issubset(other.node.expr.factors()[1])


class ReshapeForms(Base):
    """Sizes, reshape, expand and full, for static and dynamic sizes."""

    def size(self, x: Value, axis: int) -> Value:
        """One size of `x`, as an int64 tensor of one element."""
        if self.opset >= 15:
            return self.op("Shape", x, start_i=axis, end_i=axis + 1)
        return self.slice(self.op("Shape", x), [0], [axis], [axis + 1])

    def reshape(self, x: Value, sizes: Sequence[Size]) -> Value:
        """Reshape. A single dynamic size becomes -1, and those of unchanged axes become 0, so that few are computed."""
        return shaped(self._reshape(x, sizes), None if -1 in [s for s in sizes if isinstance(s, int)] else sizes)

    def _reshape(self, x: Value, sizes: Sequence[Size]) -> Value:
        if any(isinstance(size, int) and size == 0 for size in sizes):
            if self.opset >= 14:
                return self.op("Reshape", x, self.ints(sizes), allowzero_i=1)
            return self.full(sizes, 0, x.dtype)
        dynamic = [axis for axis, size in enumerate(sizes) if not isinstance(size, int)]
        shape = x.shape or ()
        kept = [
            a for a in dynamic if a < len(shape) and not isinstance(shape[a], int) and same_size(shape[a], sizes[a])
        ]
        others = [axis for axis in dynamic if axis not in kept] if len(dynamic) > 1 else dynamic
        # -1 cannot be inferred where another axis is empty, and a 0 copies the size of the axis of the input.
        is_inferred = len(others) == 1 and not any(may_be_empty(sizes[axis]) for axis in dynamic if axis not in others)
        if len(others) > is_inferred and self.opset >= 14:
            return self.op("Reshape", x, self.ints(sizes), allowzero_i=1)
        given = [
            0 if axis in dynamic and axis not in others else -1 if is_inferred and axis in others else size
            for axis, size in enumerate(sizes)
        ]
        if not any(axis in others and may_be_empty(size) for axis, size in enumerate(given)):
            return self.op("Reshape", x, self.ints(given))
        # Before opset 14, an empty axis is copied, or inferred. onnxruntime would infer what is computed in a Concat.
        # Two that are empty at once, and neither in its place, fail: what avoids it copies the tensor at other sizes.
        exact, zero = self.ints(given), self.const(0, torch.int64)
        is_copied = [axis < len(shape) and _empties(size, shape[axis]) for axis, size in enumerate(sizes)]
        instead = self.ints([0 if copied else -1 for copied in is_copied])
        return self.op("Reshape", x, self.where(self.equal(exact, zero), instead, exact))

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
