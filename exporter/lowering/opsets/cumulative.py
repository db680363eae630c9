"""Cumulative operators: CumSum came with opset 11, CumProd with opset 26, and other functions have no operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Number, Value

__all__ = ["CumulativeForms"]

#: Joins the results over some elements with the results over the elements after them.
_Join = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]


class CumulativeForms(Base):
    """Cumulative sums, products, and any other associative function of two elements."""

    def cumulative(self, how: Literal["Sum", "Prod"], x: Value, axis: int) -> Value:
        """CumSum or CumProd along an axis, composed of other operators if the opset or onnxruntime lacks it."""
        if self.has_kernel(f"Cum{how}", x.dtype):
            return self.op(f"Cum{how}", x, self.const(axis, torch.int64))
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
        join: _Join,
    ) -> Sequence[Value]:
        """An inclusive scan with an associative function `join(earlier, here)` along an axis.

        After n steps an element is the result over the 2**n elements that end with it. Each step joins it with the
        result that ends 2**n elements before it. Before the first element, `neutral` is used.
        """
        sizes = parts[0].sizes
        size = sizes[axis]
        if not isinstance(size, int):
            return self._scan_by_doubling_in_a_loop(parts, neutral, axis, join)
        reach = 1
        while reach < size:
            earlier = [
                shaped(self.op("Concat", front, self.slice(part, [axis], [0], [size - reach]), axis_i=axis), sizes)
                for part, number in zip(parts, neutral, strict=True)
                for front in [self.full([*sizes[:axis], reach, *sizes[axis + 1 :]], number, part.dtype)]
            ]
            parts = list(join(earlier, parts))
            reach *= 2
        return parts

    def _scan_by_doubling_in_a_loop(
        self, parts: Sequence[Value], neutral: Sequence[Number], axis: int, join: _Join
    ) -> Sequence[Value]:
        """The same along an axis of dynamic size, which decides the number of steps."""
        sizes = parts[0].sizes
        places = self.iota(sizes[axis])
        size = self.scalar(sizes[axis], torch.int64)
        zero = self.const(0, torch.int64)
        others = [other for other in range(len(sizes)) if other != axis]

        def step(number: Value, carried: list[Value]) -> Sequence[Value]:
            reach, *here = carried
            before = self.op("Sub", places, reach)
            is_outside = self.unsqueeze(self.less(before, zero), others)
            inside = self.extreme("Max", before, zero)
            earlier = [
                self.where(is_outside, self.const(fill, part.dtype), taken)
                for part, fill in zip(here, neutral, strict=True)
                for taken in [shaped(self.op("Gather", part, inside, axis_i=axis), sizes)]
            ]
            further = self.op("Add", reach, reach)
            return [self.less(further, size), further, *join(earlier, here)]

        # No axis has 2**63 elements.
        return self.repeat_while(63, [self.const(1, torch.int64), *parts], step)[1:]

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
