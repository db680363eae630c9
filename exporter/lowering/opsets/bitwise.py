"""Bitwise operators, which came with opset 18, and shifts, which ONNX does not have for signed integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["BitwiseForms"]


class BitwiseForms(Base):
    """And, or, xor and shifts of integers."""

    def bitwise(self, how: Literal["And", "Or", "Xor"], a: Value, b: Value) -> Value:
        if self.opset >= 18:
            return self.op(f"Bitwise{how}", a, b)
        rank = max(a.rank, b.rank)
        wide = [self.cast(x, torch.int64) for x in (a, b)]
        result = None
        # 32 bits at a time: onnxruntime 1.31 sums integers in float64, which is exact only below 2**53.
        for first in range(0, 8 * a.dtype.itemsize, 32):
            bits = range(first, min(first + 32, 8 * a.dtype.itemsize))
            part = self._bitwise(how, *(self._bits(x, bits, rank) for x in wide))
            weighted = self.op("Mul", part, self._powers_of_two([bit - first for bit in bits], rank))
            total = self.reduce("Sum", weighted, [0], keepdim=False)
            result = total if result is None else self.op("Add", result, self.op("Mul", total, 1 << first))
        assert result is not None
        return self.cast(result, a.dtype)

    def _bitwise(self, how: Literal["And", "Or", "Xor"], a: Value, b: Value) -> Value:
        """For tensors of 0 and 1: ab, a + b - ab, or a + b - 2ab"""
        both: Value = self.op("Mul", a, b)
        if how == "And":
            return both
        return self.op("Sub", self.op("Add", a, b), both if how == "Or" else self.op("Mul", both, 2))

    def shift_left(self, x: Value, by: Value) -> Value:
        """x * 2**by, which wraps around and is 0 for 64 and more, and for less than 0"""
        powers = self._powers_of_two(range(65), 0)
        chosen = self.op("Gather", powers, self.extreme("Min", self._amount(by), self.const(64, by.dtype)), axis_i=0)
        return self.cast(self.op("Mul", self.cast(x, torch.int64), chosen), x.dtype)

    def shift_right(self, x: Value, by: Value) -> Value:
        """x / 2**by rounded down, by 64 for less than 0, in two steps because 2**63 is not an int64"""
        powers, by = self._powers_of_two(range(33), 0), self._amount(by)
        low = self.extreme("Min", by, self.const(32, by.dtype))
        high = self.extreme("Min", self.op("Sub", by, low), self.const(32, by.dtype))
        shifted = self.cast(x, torch.int64)
        for part in (low, high):
            shifted = self.floor_divide(shifted, self.op("Gather", powers, part, axis_i=0))
        return self.cast(shifted, x.dtype)

    def _amount(self, by: Value) -> Value:
        """By how many bits a number is shifted: torch shifts by all of them for a negative number."""
        if not by.dtype.is_signed:
            return by
        return self.where(self.less(by, self.const(0, by.dtype)), self.const(64, by.dtype), by)

    def _bits(self, x: Value, bits: Sequence[int], rank: int) -> Value:
        """Some bits of each element, along a new first axis."""
        low = self._powers_of_two([min(bit, 32) for bit in bits], rank)
        high = self._powers_of_two([max(bit - 32, 0) for bit in bits], rank)
        two = self.const(2, torch.int64)
        return self.remainder(self.floor_divide(self.floor_divide(x, low), high), two)

    def _powers_of_two(self, exponents: Sequence[int], rank: int) -> Value:
        """Powers of two along the first of `rank` + 1 axes. 2**63 and 2**64 wrap around as they do in int64."""
        powers = torch.tensor([-(1 << 63) if exponent == 63 else (1 << exponent) % (1 << 64) for exponent in exponents])
        return self.const(powers.reshape([-1] + [1] * rank))
