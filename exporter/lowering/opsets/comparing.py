"""Comparisons, Where, Max, Min, Clip and Sign. Later opsets added dtypes to them; Where came with opset 9."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import broadcast, shaped
from onnx_parity.exporter.lowering.values.value import Number, Value

__all__ = ["ComparisonForms"]


class ComparisonForms(Base):
    """Comparisons, and choices that depend on them."""

    def _comparable(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Two values that Less and Greater accept, which before opset 9 are floats only.

        For int64, the difference is computed in float64 from those of the upper and the lower 32 bits. The first is
        multiplied by more than the second can be, so that rounding does not change the sign of the sum.
        """
        if self.opset < 9 and a.dtype is torch.int64:
            half = self.const(2**32, torch.int64)
            upper = [self.op("Div", x, half) for x in (a, b)]
            lower = [self.op("Sub", x, self.op("Mul", u, half)) for x, u in zip((a, b), upper, strict=True)]
            apart, rest = (self.cast(self.op("Sub", *pair), torch.float64) for pair in (upper, lower))
            return self.op("Add", self.op("Mul", apart, 2.0**33), rest), self.const(0.0, torch.float64)
        return a, b

    def less(self, a: Value, b: Value) -> Value:
        return self.op("Less", *self._comparable(a, b))

    def greater(self, a: Value, b: Value) -> Value:
        return self.op("Greater", *self._comparable(a, b))

    def less_or_equal(self, a: Value, b: Value) -> Value:
        if self.opset >= 12:
            return self.op("LessOrEqual", a, b)
        # Not(a > b) would be true where a is NaN.
        return self.op("Or", self.less(a, b), self.equal(a, b))

    def greater_or_equal(self, a: Value, b: Value) -> Value:
        if self.opset >= 12:
            return self.op("GreaterOrEqual", a, b)
        return self.op("Or", self.greater(a, b), self.equal(a, b))

    def equal(self, a: Value, b: Value) -> Value:
        if self.opset < 11 and a.dtype.is_floating_point:
            # Equal takes floats only from opset 11. Two floats are equal if neither is less and neither is NaN.
            apart = self.op("Or", self.less(a, b), self.greater(a, b))
            return self.op("And", self.op("Not", apart), self.op("And", self._is_number(a), self._is_number(b)))
        return self.op("Equal", a, b)

    def _is_number(self, x: Value) -> Value:
        """False for NaN, which is neither below 1 nor above 0."""
        return self.op("Or", self.less(x, self.const(1, x.dtype)), self.greater(x, self.const(0, x.dtype)))

    def is_nan(self, x: Value) -> Value:
        return self.op("IsNaN", x) if self.opset >= 9 else self.op("Not", self._is_number(x))

    def not_equal(self, a: Value, b: Value) -> Value:
        return self.op("Not", self.equal(a, b))

    def is_infinite(self, x: Value) -> Value:
        return self.greater(self.op("Abs", x), self.const(torch.finfo(x.dtype).max, x.dtype))

    def where(self, condition: Value, a: Value, b: Value) -> Value:
        """`a` where the condition holds, `b` elsewhere."""
        if self.opset >= 9:
            return self.op("Where", condition, a, b)
        if a.dtype is torch.bool:
            return self.op("Or", self.op("And", condition, a), self.op("And", self.op("Not", condition), b))
        if not a.dtype.is_floating_point:
            other = self.cast(self.op("Not", condition), a.dtype)
            return self.op("Add", self.op("Mul", a, self.cast(condition, a.dtype)), self.op("Mul", b, other))
        # x ** 1 is x, and x ** 0 is 1, of NaN and infinities too: the element that is not chosen becomes 1.
        chosen = self.op("Pow", a, self.cast(condition, a.dtype))
        return self.op("Mul", chosen, self.op("Pow", b, self.cast(self.op("Not", condition), a.dtype)))

    def triangle(self, x: Value, diagonal: Size, upper: bool) -> Value:
        """The upper or lower triangle of matrices, zeros elsewhere. Trilu came with opset 14."""
        if self.opset >= 14 and not any(isinstance(size, int) and size == 0 for size in x.sizes):
            return self.op("Trilu", x, self.scalar(diagonal, torch.int64), upper_i=upper)
        row, column = self.along(x.sizes[-2], 0, 2), self.along(x.sizes[-1], 1, 2)
        below = self.less(column, self.op("Add", row, self.scalar(diagonal + (0 if upper else 1), torch.int64)))
        kept = shaped(self.op("Not", below) if upper else below, x.sizes[-2:])
        return self.where(kept, x, self.const(0, x.dtype))

    def extreme(self, which: Literal["Max", "Min"], a: Value, b: Value) -> Value:
        """The elementwise maximum or minimum; NaN if either is NaN, as in torch."""
        if a.dtype is torch.bool:
            return self.op("Or" if which == "Max" else "And", a, b)
        if self.opset >= (8 if a.dtype.is_floating_point else 12):
            return self.op(which, a, b)
        if not a.dtype.is_floating_point:
            return self.where(self.greater(a, b) if which == "Max" else self.less(a, b), a, b)
        if a.dtype is torch.float64 and _known(broadcast(a, b)) is not None:
            # onnxruntime runs Max and Min of opset 7 in float32 only.
            ahead = self.greater(a, b) if which == "Max" else self.less(a, b)
            return self.where(self.op("Or", ahead, self.is_nan(a)), a, b)
        # Max and Min of opset 7 do not broadcast. Less does, and gives zeros of the common shape.
        zeros = self.op("Mul", self.cast(self.less(a, b), a.dtype), 0)
        return self.op(which, self.op("Add", a, zeros), self.op("Add", b, zeros))

    def extreme_over(self, which: Literal["Max", "Min"], x: Value, axes: Sequence[int] | None, keepdim: bool) -> Value:
        """The maximum or minimum over axes, or over all for None; NaN if any element is, which ReduceMax may lose.

        A sum is NaN too, if infinities are limited before, of which two would make one. Added to the maximum it would
        turn -0 into 0.
        """
        found = self.reduce(which, x, axes, keepdim)
        if x.has_no_nan:
            return found
        total = self.reduce("Sum", self.clip(x, -1, 1), axes, keepdim)
        return shaped(self.where(self.is_nan(total), total, found), found.shape)

    def clip(self, x: Value, low: Number | None, high: Number | None) -> Value:
        """`x` limited to bounds as in torch: NaN stays NaN, a NaN bound gives NaN, and the upper bound has priority."""
        if low is None and high is None:
            return x
        numbers = [bound for bound in (low, high) if isinstance(bound, (int, float))]
        is_odd = any(number != number for number in numbers) or (len(numbers) == 2 and numbers[0] > numbers[1])
        if not is_odd and self.opset >= 12 and not x.dtype.is_floating_point:
            bounds = [None if bound is None else self.scalar(bound, x.dtype) for bound in (low, high)]
            return self.op("Clip", x, *(bounds if high is not None else bounds[:1]))
        if not is_odd and x.dtype.is_floating_point and self.has_kernel("Clip", x.dtype):
            # Without a bound, Clip uses the largest finite number, which would replace infinities.
            least, most = -math.inf if low is None else low, math.inf if high is None else high
            if self.opset >= 11:
                return self.op("Clip", x, self.scalar(least, x.dtype), self.scalar(most, x.dtype))
            if not isinstance(least, torch.SymInt) and not isinstance(most, torch.SymInt):
                return self.op("Clip", x, min_f=least, max_f=most)
        if low is not None:
            x = self.extreme("Max", x, self.scalar(low, x.dtype))
        return x if high is None else self.extreme("Min", x, self.scalar(high, x.dtype))

    def sign(self, x: Value) -> Value:
        """-1, 0 or 1. For NaN, ONNX does not say whether it is 0 or NaN."""
        if self.opset >= 9:
            return self.op("Sign", x)
        return self.sign_by_comparison(x)

    def sign_by_comparison(self, x: Value) -> Value:
        """-1, 0 or 1, and 0 for NaN."""
        zero = self.const(0, x.dtype)
        return self.op("Sub", self.cast(self.greater(x, zero), x.dtype), self.cast(self.less(x, zero), x.dtype))


def _known(sizes: Sequence[Size] | None) -> list[int] | None:
    """The sizes if all of them are known at export, else None."""
    known = [size for size in sizes or () if isinstance(size, int)]
    return known if sizes is not None and len(known) == len(sizes) else None
