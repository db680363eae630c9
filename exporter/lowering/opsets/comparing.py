"""Comparing and choosing: which dtypes may be compared, and Where before there was one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch

from onnx_parity.exporter.capture.graph.graph import Size
from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import broadcast
from onnx_parity.exporter.lowering.values.value import Number, Value

__all__ = ["ChoiceForms"]

_UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)


class ChoiceForms(Base):
    """Comparisons, where, extremes, clipping, signs."""

    def floor_divide(self, a: Value, b: Value) -> Value:
        """Integer division rounding down; ONNX's Div truncates."""
        quotient: Value = self.op("Div", a, b)
        if a.dtype in _UNSIGNED:
            return quotient
        if self.opset >= 10:
            # The two kinds of remainder differ by b where the quotient is to be one less, and by 0 elsewhere.
            excess = self.op("Sub", self.op("Mod", a, b), self.fmod(a, b))
            return self.op("Sub", quotient, self.op("Div", excess, b))
        remainder = self.op("Sub", a, self.op("Mul", quotient, b))
        zero = self.const(0, a.dtype)
        differs = self.op(
            "And", self.not_equal(remainder, zero), self.op("Xor", self.less(remainder, zero), self.less(b, zero))
        )
        return self.op("Sub", quotient, self.cast(differs, a.dtype))

    def fmod(self, a: Value, b: Value) -> Value:
        """The remainder of truncating division: of the sign of a."""
        # onnxruntime computes int64's Mod with fmod=1 in float64, which is wrong beyond 2**53.
        if self.opset >= 10 and a.dtype is not torch.int64:
            return self.op("Mod", a, b, fmod_i=1)
        if not a.dtype.is_floating_point:
            return self.op("Sub", a, self.op("Mul", self.op("Div", a, b), b))
        if a.dtype is torch.float64:
            raise Unsupported("a remainder of torch.float64 needs Mod of opset 10", since=10)
        # In float64, the truncated quotient and its product with b are exact for quotients below 2**29. An infinite b
        # gives the quotient 0, but must not be multiplied with it.
        limit = torch.finfo(b.dtype).max
        wide, by = self.cast(a, torch.float64), self.cast(self.clip(b, -limit, limit), torch.float64)
        quotient = self.op("Div", wide, by)
        whole = self.op("Mul", self.op("Floor", self.op("Abs", quotient)), self.sign(quotient))
        return self.cast(self.op("Sub", wide, self.op("Mul", whole, by)), a.dtype)

    def remainder(self, a: Value, b: Value) -> Value:
        """The remainder of division rounding down: of the sign of b."""
        if not a.dtype.is_floating_point:
            if self.opset >= 10:
                return self.op("Mod", a, b)
            return self.op("Sub", a, self.op("Mul", self.floor_divide(a, b), b))
        truncated = self.fmod(a, b)
        return self.where(self._is_off(truncated, b), self.op("Add", truncated, b), truncated)

    def floor_divide_floats(self, a: Value, b: Value) -> Value:
        """Python's a // b: of the exact quotient, not of the rounded one, so that 1 // 0.1 is 9."""
        truncated = self.fmod(a, b)
        one_less = self.cast(self._is_off(truncated, b), a.dtype)
        quotient = self.op("Sub", self.op("Div", self.op("Sub", a, truncated), b), one_less)
        low = self.op("Floor", quotient)
        half = self.const(0.5, a.dtype)
        nearest = self.op("Add", low, self.cast(self.greater(self.op("Sub", quotient, low), half), a.dtype))
        return self.where(self.equal(b, self.const(0, b.dtype)), self.op("Div", a, b), nearest)

    def _is_off(self, truncated: Value, b: Value) -> Value:
        """Whether a truncating remainder is not 0 and of the other sign than b."""
        zero = self.const(0, b.dtype)
        positive, negative = self.greater(truncated, zero), self.less(truncated, zero)
        below, above = self.less(b, zero), self.greater(b, zero)
        return self.op("Or", self.op("And", positive, below), self.op("And", negative, above))

    def _comparable(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Before opset 9 Less and Greater take floats only. Of 64-bit integers the halves are compared.

        The upper halves' difference, times more than the lower halves' can be, plus that: rounding keeps its sign.
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

    def infinite(self, x: Value) -> Value:
        """True for infinities."""
        return self.greater(self.op("Abs", x), self.const(torch.finfo(x.dtype).max, x.dtype))

    def finite(self, x: Value) -> Value:
        """False for infinities and NaN."""
        return self.less(self.op("Abs", x), self.const(math.inf, x.dtype))

    def where(self, condition: Value, a: Value, b: Value) -> Value:
        """`a` where the condition holds, `b` elsewhere."""
        if self.opset >= 9:
            return self.op("Where", condition, a, b)
        if a.dtype is torch.bool:
            return self.op("Or", self.op("And", condition, a), self.op("And", self.op("Not", condition), b))
        if not a.dtype.is_floating_point:
            other = self.cast(self.op("Not", condition), a.dtype)
            return self.op("Add", self.op("Mul", a, self.cast(condition, a.dtype)), self.op("Mul", b, other))
        sizes = _known(broadcast(condition, a, b))
        if sizes is not None:
            return self._gathered_choice(condition, a, b, sizes)
        # What is not chosen is turned into an infinity that the other outdoes. NaN among it is not overcome.
        sign = self.op("Sub", self.op("Mul", self.cast(condition, a.dtype), 2), 1)
        bound = self.op("Mul", sign, math.inf)
        chosen, other = self.extreme("Min", a, bound), self.extreme("Min", b, self.op("Neg", bound))
        return self.extreme("Max", chosen, other)

    def _gathered_choice(self, condition: Value, a: Value, b: Value, sizes: list[int]) -> Value:
        """Before Where, of known sizes: element n of `b` stands at n, that of `a` at n + count, and one is gathered."""
        count = math.prod(sizes)
        flat = [self.reshape(self.expand(x, sizes), [count]) for x in (b, a, condition)]
        places = self.op("Add", self.op("Mul", self.cast(flat[2], torch.int64), count), self.iota(count))
        return self.reshape(self.op("Gather", self.op("Concat", *flat[:2], axis_i=0), places, axis_i=0), sizes)

    def extreme(self, which: Literal["Max", "Min"], a: Value, b: Value) -> Value:
        """The elementwise maximum or minimum. NaN wins, as in torch."""
        if a.dtype is torch.bool:
            return self.op("Or" if which == "Max" else "And", a, b)
        if self.opset >= (8 if a.dtype.is_floating_point else 12):
            return self.op(which, a, b)
        if not a.dtype.is_floating_point:
            return self.where(self.greater(a, b) if which == "Max" else self.less(a, b), a, b)
        if a.dtype is torch.float64 and _known(broadcast(a, b)) is not None:
            # onnxruntime runs Max and Min of opset 7 in float32 only.
            ahead = self.greater(a, b) if which == "Max" else self.less(a, b)
            return self.where(self.op("Or", ahead, self.not_number(a)), a, b)
        # Max and Min of opset 7 do not broadcast: a comparison does, and makes zeros of the common shape.
        zeros = self.op("Mul", self.cast(self.less(a, b), a.dtype), 0)
        return self.op(which, self.op("Add", a, zeros), self.op("Add", b, zeros))

    def clip(self, x: Value, low: Number | None, high: Number | None) -> Value:
        """Between bounds, of which the upper wins; NaN stays, and as a bound it comes through."""
        if low is None and high is None:
            return x
        numbers = [bound for bound in (low, high) if isinstance(bound, (int, float))]
        is_odd = any(number != number for number in numbers) or (len(numbers) == 2 and numbers[0] > numbers[1])
        if not is_odd and self.opset >= 12 and not x.dtype.is_floating_point:
            bounds = [None if bound is None else self.scalar(bound, x.dtype) for bound in (low, high)]
            return self.op("Clip", x, *(bounds if high is not None else bounds[:1]))
        if not is_odd and x.dtype.is_floating_point and self.has_kernel("Clip", x.dtype):
            # A bound that is left out means the largest finite number, and would cut off infinities.
            least, most = -math.inf if low is None else low, math.inf if high is None else high
            if self.opset >= 11:
                return self.op("Clip", x, self.scalar(least, x.dtype), self.scalar(most, x.dtype))
            if not isinstance(least, torch.SymInt) and not isinstance(most, torch.SymInt):
                return self.op("Clip", x, min_f=least, max_f=most)
        if low is not None:
            x = self.extreme("Max", x, self.scalar(low, x.dtype))
        return x if high is None else self.extreme("Min", x, self.scalar(high, x.dtype))

    def sign(self, x: Value) -> Value:
        """-1, 0 or 1. Of NaN it is either 0 or NaN."""
        if self.opset >= 9:
            return self.op("Sign", x)
        return self.sign_by_comparison(x)

    def sign_by_comparison(self, x: Value) -> Value:
        """-1, 0 or 1, and 0 of NaN."""
        zero = self.const(0, x.dtype)
        return self.op("Sub", self.cast(self.greater(x, zero), x.dtype), self.cast(self.less(x, zero), x.dtype))


def _known(sizes: Sequence[Size] | None) -> list[int] | None:
    """Sizes that are numbers, all of them."""
    known = [size for size in sizes or () if isinstance(size, int)]
    return known if sizes is not None and len(known) == len(sizes) else None
