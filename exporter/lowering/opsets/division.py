"""Integer and floating-point division that rounds down, and remainders; Mod came with opset 10."""

from __future__ import annotations

import torch

from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["DivisionForms"]

_UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)


class DivisionForms(Base):
    """Floor division, fmod and remainder."""

    def floor_divide(self, a: Value, b: Value) -> Value:
        """Integer division that rounds down; ONNX's Div truncates."""
        quotient: Value = self.op("Div", a, b)
        if a.dtype in _UNSIGNED:
            return quotient
        if self.opset >= 10:
            # The two kinds of remainder differ by b where the truncated quotient is one too large, and by 0 elsewhere.
            excess = self.op("Sub", self.op("Mod", a, b), self.fmod(a, b))
            return self.op("Sub", quotient, self.op("Div", excess, b))
        remainder = self.op("Sub", a, self.op("Mul", quotient, b))
        zero = self.const(0, a.dtype)
        differs = self.op(
            "And", self.not_equal(remainder, zero), self.op("Xor", self.less(remainder, zero), self.less(b, zero))
        )
        return self.op("Sub", quotient, self.cast(differs, a.dtype))

    def fmod(self, a: Value, b: Value) -> Value:
        """The remainder of truncating division, which has the sign of a."""
        # onnxruntime computes Mod of int64 with fmod=1 in float64, which is wrong beyond 2**53.
        if self.opset >= 10 and a.dtype is not torch.int64:
            return self.op("Mod", a, b, fmod_i=1)
        if not a.dtype.is_floating_point:
            return self.op("Sub", a, self.op("Mul", self.op("Div", a, b), b))
        if a.dtype is torch.float64:
            self.require_opset(10, "the remainder of torch.float64 needs ONNX's Mod")
        # In float64, the truncated quotient and its product with b are exact for quotients below 2**29. An infinite b
        # gives the quotient 0, and must not be multiplied with it.
        limit = torch.finfo(b.dtype).max
        wide, by = self.cast(a, torch.float64), self.cast(self.clip(b, -limit, limit), torch.float64)
        quotient = self.op("Div", wide, by)
        whole = self.op("Mul", self.op("Floor", self.op("Abs", quotient)), self.sign(quotient))
        return self.cast(self.op("Sub", wide, self.op("Mul", whole, by)), a.dtype)

    def remainder(self, a: Value, b: Value) -> Value:
        """The remainder of division that rounds down, which has the sign of b."""
        if not a.dtype.is_floating_point:
            if self.opset >= 10:
                return self.op("Mod", a, b)
            return self.op("Sub", a, self.op("Mul", self.floor_divide(a, b), b))
        truncated = self.fmod(a, b)
        return self.where(self._has_other_sign(truncated, b), self.op("Add", truncated, b), truncated)

    def floor_divide_floats(self, a: Value, b: Value) -> Value:
        """Python's a // b, which rounds the exact quotient and not the floating-point one: 1 // 0.1 is 9."""
        truncated = self.fmod(a, b)
        one_less = self.cast(self._has_other_sign(truncated, b), a.dtype)
        quotient = self.op("Sub", self.op("Div", self.op("Sub", a, truncated), b), one_less)
        low = self.op("Floor", quotient)
        half = self.const(0.5, a.dtype)
        nearest = self.op("Add", low, self.cast(self.greater(self.op("Sub", quotient, low), half), a.dtype))
        return self.where(self.equal(b, self.const(0, b.dtype)), self.op("Div", a, b), nearest)

    def _has_other_sign(self, truncated: Value, b: Value) -> Value:
        """Whether a truncating remainder is not 0 and has the other sign than b."""
        zero = self.const(0, b.dtype)
        positive, negative = self.greater(truncated, zero), self.less(truncated, zero)
        below, above = self.less(b, zero), self.greater(b, zero)
        return self.op("Or", self.op("And", positive, below), self.op("And", negative, above))
