"""TopK, which takes integers, and k as an input, only from opsets 11 and 10 on; sorting is TopK of a whole axis."""

from __future__ import annotations

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.opsets.gather_scatter import GatherScatterForms
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["TopKForms"]


class TopKForms(GatherScatterForms):
    """The k largest or smallest elements, in order."""

    def top_k(self, x: Value, k: Size, axis: int, largest: bool) -> tuple[Value, Value]:
        """The `k` largest or smallest elements in order, and their indices.

        Equal elements keep their order, and NaN is larger than everything else.
        """
        sizes = [*x.sizes[:axis], k, *x.sizes[axis + 1 :]]
        if isinstance(k, int) and k == 0:
            return self.full(sizes, 0, x.dtype), self.full(sizes, 0, torch.int64)
        keys = self._sortable(x) if x.dtype.is_floating_point else x
        if x.dtype is torch.bool:
            keys = self.cast(x, torch.int32)
        if self.opset < 11 and not x.dtype.is_floating_point:
            if x.dtype is torch.int64:
                indices = self._top_k_by_halves(x, k, axis, largest)
                return self.gather_elements(x, indices, axis), indices
            keys = self.cast(x, torch.float64 if x.dtype is torch.int32 else torch.float32)
        values, indices = self._top_k(keys, k, axis, largest)
        indices = shaped(indices, sizes)
        if x.dtype.is_floating_point:
            # NaN was replaced by infinity: the result is gathered from x itself.
            return self.gather_elements(x, indices, axis), indices
        return shaped(self.cast(values, x.dtype), sizes), indices

    def _sortable(self, x: Value) -> Value:
        """NaN as infinity, and infinity as the largest finite number, because runtimes sort NaN incorrectly."""
        if x.dtype in (torch.float16, torch.bfloat16):
            x = self.cast(x, torch.float32)
        top = self.const(torch.finfo(x.dtype).max, x.dtype)
        infinity = self.const(float("inf"), x.dtype)
        missing = self.is_nan(x)
        return self.where(missing, infinity, self.extreme("Min", x, top))

    def _top_k_by_halves(self, x: Value, k: Size, axis: int, largest: bool) -> Value:
        """Indices for int64, which TopK does not take: sorted by the lower 32 bits, then stably by the upper ones."""
        half = self.const(2**32, torch.int64)
        upper = self.floor_divide(x, half)
        lower = self.op("Sub", x, self.op("Mul", upper, half))
        by_lower = shaped(self._top_k(self.cast(lower, torch.float64), x.sizes[axis], axis, largest)[1], x.sizes)
        uppers = self.gather_elements(upper, by_lower, axis)
        by_upper = self._top_k(self.cast(uppers, torch.float64), k, axis, largest)[1]
        sizes = [*x.sizes[:axis], k, *x.sizes[axis + 1 :]]
        return self.gather_elements(by_lower, shaped(by_upper, sizes), axis)

    def _top_k(self, x: Value, k: Size, axis: int, largest: bool) -> tuple[Value, ...]:
        if self.opset >= 11:
            return self.op("TopK", x, self.ints([k]), axis_i=axis, largest_i=largest, outputs=2)
        if not largest:
            values, indices = self._top_k(self.op("Neg", x), k, axis, True)
            return self.op("Neg", values), indices
        if self.opset >= 10:
            return self.op("TopK", x, self.ints([k]), axis_i=axis, outputs=2)
        if not isinstance(k, int):
            self.require_opset(10, "k is a dynamic size, and ONNX's TopK takes only a constant at this opset")
        return self.op("TopK", x, axis_i=axis, k_i=k, outputs=2)
