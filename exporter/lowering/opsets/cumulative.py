"""Cumulative operators: CumSum came with opset 11, CumProd with opset 26, and other functions have no operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch

from onnx_parity.exporter.capture.graph.graph import Size
from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Number, Value

__all__ = ["CumulativeForms"]


class CumulativeForms(Base):
    """Cumulative sums, products, and any other associative function of two elements."""

    def cumulative(self, how: Literal["Sum", "Prod"], x: Value, axis: int) -> Value:
        """CumSum or CumProd along an axis, composed of other operators if the opset or onnxruntime lacks it."""
        if self.has_kernel(f"Cum{how}", x.dtype):
            return self.op(f"Cum{how}", x, self.const(axis, torch.int64))
        if not isinstance(x.sizes[axis], int):
            since = 11 if how == "Sum" else 26
            self.require_opset(since, f"along a dynamic axis it needs ONNX's Cum{how}")
        name, neutral = ("Add", 0) if how == "Sum" else ("Mul", 1)
        [total] = self.scan_by_doubling(
            [x], [neutral], axis, lambda earlier, here: [self.op(name, here[0], earlier[0])]
        )
        return total

    def scan_by_doubling(
        self,
        parts: Sequence[Value],
        neutral: Sequence[Number],
        axis: int,
        join: Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]],
    ) -> Sequence[Value]:
        """An inclusive scan with an associative function `join(earlier, here)` along an axis of known size.

        After n steps an element is the result over the 2**n elements that end with it. Each step joins it with the
        result that ends 2**n elements before it. Before the first element, `neutral` is used.
        """
        sizes = parts[0].sizes
        size = sizes[axis]
        if not isinstance(size, int):
            raise Unsupported(
                "ONNX has no operator that computes it along a dynamic axis: remove that axis from dynamic_axes"
            )
        reach = 1
        while reach < size:
            earlier = [
                shaped(self.op("Concat", front, self.slice(part, [axis], [0], [size - reach]), axis_i=axis), sizes)
                for part, number in zip(parts, neutral, strict=True)
                for front in [self.full([*sizes[:axis], reach, *sizes[axis + 1 :]], number, part.dtype)]
            ]
            parts = [shaped(part, sizes) for part in join(earlier, parts)]
            reach *= 2
        return parts

    def cumulative_count(self, flags: Value, size: Size) -> Value:
        """For each element of a boolean vector, the number of true elements up to and including it."""
        return self.cumsum_of_vector(self.cast(flags, torch.int64), size)

    def cumsum_of_vector(self, numbers: Value, size: Size) -> Value:
        """The cumulative sum of an int64 vector, whose size may be dynamic at every opset."""
        if self.opset >= 11:
            return shaped(self.op("CumSum", numbers, self.const(0, torch.int64)), [size])
        indices = self.iota(size)
        included = self.op("Not", self.less(self.unsqueeze(indices, [1]), self.unsqueeze(indices, [0])))
        each = self.op("Mul", self.cast(included, torch.int64), self.unsqueeze(numbers, [0]))
        return shaped(self.reduce("Sum", each, [1], keepdim=False), [size])
