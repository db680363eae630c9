"""Order: the largest and smallest, sorting, and places counted in order."""

from __future__ import annotations

import torch

from onnx_parity.exporter.capture.graph.graph import Size
from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.lowering.opsets.gather_scatter import PlaceForms
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["OrderForms"]


class OrderForms(PlaceForms):
    """The first few, and counting in order."""

    def top_k(self, x: Value, k: Size, axis: int, largest: bool) -> tuple[Value, Value]:
        """The `k` largest or smallest in order, ties in the order of their places, NaN above all; and their places."""
        sizes = [*x.sizes[:axis], k, *x.sizes[axis + 1 :]]
        if isinstance(k, int) and k == 0:
            return self.full(sizes, 0, x.dtype), self.full(sizes, 0, torch.int64)
        keys = self._sortable(x) if x.dtype.is_floating_point else x
        if x.dtype is torch.bool:
            keys = self.cast(x, torch.int32)
        if self.opset < 11 and not x.dtype.is_floating_point:
            if x.dtype is torch.int64:
                places = self._top_k_by_halves(x, k, axis, largest)
                return self.gather_elements(x, places, axis), places
            keys = self.cast(x, torch.float64 if x.dtype is torch.int32 else torch.float32)
        values, places = self._top_k(keys, k, axis, largest)
        places = shaped(places, sizes)
        if x.dtype.is_floating_point:
            # NaN went as infinity, and comes back from where it was.
            return self.gather_elements(x, places, axis), places
        return shaped(self.cast(values, x.dtype), sizes), places

    def _sortable(self, x: Value) -> Value:
        """Runtimes order NaN anywhere and upset the rest with it: put infinity for it, below which all else is kept."""
        if x.dtype in (torch.float16, torch.bfloat16):
            x = self.cast(x, torch.float32)
        top = self.const(torch.finfo(x.dtype).max, x.dtype)
        infinity = self.const(float("inf"), x.dtype)
        missing = shaped(self.not_number(x), x.sizes)
        return self.where(missing, infinity, shaped(self.extreme("Min", x, top), x.sizes))

    def _top_k_by_halves(self, x: Value, k: Size, axis: int, largest: bool) -> Value:
        """Places of 64-bit integers, of which TopK takes none: in order of the lower half, then stably of the upper."""
        half = self.const(2**32, torch.int64)
        upper = self.floor_divide(x, half)
        lower = self.op("Sub", x, self.op("Mul", upper, half))
        by_lower = shaped(self._top_k(self.cast(lower, torch.float64), x.sizes[axis], axis, largest)[1], x.sizes)
        uppers = self.gather_elements(shaped(upper, x.sizes), by_lower, axis)
        by_upper = self._top_k(self.cast(uppers, torch.float64), k, axis, largest)[1]
        sizes = [*x.sizes[:axis], k, *x.sizes[axis + 1 :]]
        return self.gather_elements(by_lower, shaped(by_upper, sizes), axis)

    def _top_k(self, x: Value, k: Size, axis: int, largest: bool) -> tuple[Value, ...]:
        if self.opset >= 11:
            return self.op("TopK", x, self.ints([k]), axis_i=axis, largest_i=largest, outputs=2)
        if not largest:
            values, places = self._top_k(self.op("Neg", x), k, axis, True)
            return self.op("Neg", values), places
        if self.opset >= 10:
            return self.op("TopK", x, self.ints([k]), axis_i=axis, outputs=2)
        if not isinstance(k, int):
            raise Unsupported("TopK takes a k that varies only from opset 10", since=10)
        return self.op("TopK", x, axis_i=axis, k_i=k, outputs=2)

    def counted(self, flags: Value, size: Size) -> Value:
        """Of a boolean vector: how many are true up to and with each place."""
        return self.cumulative(self.cast(flags, torch.int64), size)

    def cumulative(self, numbers: Value, size: Size) -> Value:
        """Of an int64 vector: the sums up to and with each place."""
        if self.opset >= 11:
            return shaped(self.op("CumSum", numbers, self.const(0, torch.int64)), [size])
        up_to = self.iota(size)
        earlier = self.op("Not", self.less(self.unsqueeze(up_to, [1]), self.unsqueeze(up_to, [0])))
        each = self.op("Mul", self.cast(earlier, torch.int64), self.unsqueeze(numbers, [0]))
        return shaped(self.reduce("Sum", each, [1], keepdim=False), [size])

    def scatter_masked(self, x: Value, mask: Value, updates: Value) -> Value:
        """Rows of `x` under a boolean vector replaced by the first rows of `updates`, in order."""
        size = x.sizes[0]
        here = self.iota(size)
        # The update that row n would take stands behind all rows of x, at size + (how many are taken up to n) - 1.
        behind = self.op("Add", self.counted(mask, size), self.scalar(size - 1, torch.int64))
        taken = self.op("Mul", self.cast(mask, torch.int64), self.op("Sub", behind, here))
        both = self.op("Concat", x, updates, axis_i=0)
        return shaped(self.op("Gather", both, self.op("Add", here, taken), axis_i=0), x.sizes)

    def triangle(self, x: Value, diagonal: Size, upper: bool) -> Value:
        """The upper or lower triangle of matrices, zeros elsewhere."""
        if self.opset >= 14 and not any(isinstance(size, int) and size == 0 for size in x.sizes):
            return self.op("Trilu", x, self.scalar(diagonal, torch.int64), upper_i=upper)
        row, column = self.along(x.sizes[-2], 0, 2), self.along(x.sizes[-1], 1, 2)
        below = self.less(column, self.op("Add", row, self.scalar(diagonal + (0 if upper else 1), torch.int64)))
        kept = shaped(self.op("Not", below) if upper else below, x.sizes[-2:])
        return self.where(kept, x, self.const(0, x.dtype))
