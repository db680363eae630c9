"""Comparing and choosing: which dtypes may be compared, and Where before there was one."""

from __future__ import annotations

from typing import Literal

import torch

from exporter.lowering.opsets.base import Base
from exporter.lowering.values import Number, Value

__all__ = ["ChoiceForms"]


class ChoiceForms(Base):
    """Comparisons, where, extremes, clipping, signs."""

    def floor_divide(self, a: Value, b: Value) -> Value:
        """Integer division rounding down; ONNX's Div truncates."""
        quotient: Value = self.op("Div", a, b)
        remainder = self.op("Sub", a, self.op("Mul", quotient, b))
        zero = self.const(0, a.dtype)
        differs = self.op(
            "And", self.not_equal(remainder, zero), self.op("Xor", self.less(remainder, zero), self.less(b, zero))
        )
        return self.op("Sub", quotient, self.cast(differs, a.dtype))

    def _comparable(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Before opset 9 Less and Greater take floats only: compare 64-bit integers by the sign of their difference."""
        if self.opset < 9 and a.dtype is torch.int64:
            sign = self.cast(self.op("Sub", a, b), torch.float64)
            return sign, self.const(0.0, torch.float64)
        return a, b

    def less(self, a: Value, b: Value) -> Value:
        return self.op("Less", *self._comparable(a, b))

    def greater(self, a: Value, b: Value) -> Value:
        return self.op("Greater", *self._comparable(a, b))

    def less_or_equal(self, a: Value, b: Value) -> Value:
        if self.opset >= 12:
            return self.op("LessOrEqual", a, b)
        # Not(a > b) would call NaN <= b true.
        return self.op("Or", self.less(a, b), self.equal(a, b))

    def greater_or_equal(self, a: Value, b: Value) -> Value:
        if self.opset >= 12:
            return self.op("GreaterOrEqual", a, b)
        return self.op("Or", self.greater(a, b), self.equal(a, b))

    def equal(self, a: Value, b: Value) -> Value:
        if self.opset < 11 and a.dtype.is_floating_point:
            # Equal takes floats only from opset 11. Two numbers are equal when neither is less and neither is NaN.
            apart = self.op("Or", self.less(a, b), self.greater(a, b))
            return self.op("And", self.op("Not", apart), self.op("And", self._is_number(a), self._is_number(b)))
        return self.op("Equal", a, b)

    def _is_number(self, x: Value) -> Value:
        """False for NaN, which is neither below 1 nor above 0."""
        return self.op("Or", self.less(x, self.const(1, x.dtype)), self.greater(x, self.const(0, x.dtype)))

    def not_number(self, x: Value) -> Value:
        """True for NaN."""
        return self.op("IsNaN", x) if self.opset >= 9 else self.op("Not", self._is_number(x))

    def not_equal(self, a: Value, b: Value) -> Value:
        return self.op("Not", self.equal(a, b))

    def where(self, condition: Value, a: Value, b: Value) -> Value:
        if self.opset >= 9:
            return self.op("Where", condition, a, b)
        if a.dtype is torch.bool:
            return self.op("Or", self.op("And", condition, a), self.op("And", self.op("Not", condition), b))
        # No choice before opset 9 but arithmetic, exact for finite values: 0 * infinity would be NaN.
        chosen = self.cast(condition, a.dtype)
        other = self.cast(self.op("Not", condition), a.dtype)
        return self.op("Add", self.op("Mul", a, chosen), self.op("Mul", b, other))

    def extreme(self, which: Literal["Max", "Min"], a: Value, b: Value) -> Value:
        """The elementwise maximum or minimum. NaN wins, as in torch."""
        if self.opset >= (8 if a.dtype.is_floating_point else 12):
            return self.op(which, a, b)
        first = self.greater(a, b) if which == "Max" else self.less(a, b)
        return self.where(first, a, b)

    def clip(self, x: Value, low: Number | None, high: Number | None) -> Value:
        if low is None and high is None:
            return x
        if self.opset >= 12 or (self.opset >= 11 and x.dtype.is_floating_point):
            bounds = [None if bound is None else self.scalar(bound, x.dtype) for bound in (low, high)]
            return self.op("Clip", x, *(bounds if high is not None else bounds[:1]))
        if x.dtype.is_floating_point:
            return self.op("Clip", x, min_f=low, max_f=high)
        if low is not None:
            x = self.extreme("Max", x, self.scalar(low, x.dtype))
        return x if high is None else self.extreme("Min", x, self.scalar(high, x.dtype))

    def sign(self, x: Value) -> Value:
        if self.opset >= 9:
            return self.op("Sign", x)
        zero = self.const(0, x.dtype)
        return self.op("Sub", self.cast(self.greater(x, zero), x.dtype), self.cast(self.less(x, zero), x.dtype))
