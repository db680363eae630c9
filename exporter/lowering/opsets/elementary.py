"""Elementary functions: ONNX's operator if onnxruntime runs it, and otherwise formulas of other operators.

Erf and the hyperbolic functions came with opset 9, Round with opset 11, and ONNX has no expm1 and log1p. onnxruntime
computes about half of them in float32 only. The formulas keep the relative accuracy of small results, and are correct
for infinities and NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["ElementaryForms"]

#: erf(x) = x * P(x²) / Q(x²) between -bound and bound, and ±1 beyond: bound, and P and Q from the highest power down.
_ERF: dict[torch.dtype, tuple[float, Sequence[float], Sequence[float]]] = {
    # As in Eigen: 7 ULP at most.
    torch.float32: (
        4.0,
        (-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
         -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02),
        (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
         -1.42647390514189e-02),
    ),
    # Fitted by least squares at Chebyshev nodes, in 60 digits: 8 ULP at most.
    torch.float64: (
        6.0,
        (8.468715434297768e-17, 4.8342127571360336e-14, 5.19182884434702e-12, 2.2987615551338282e-10,
         8.291703832436017e-09, 1.967127676215982e-07, 4.321424759439139e-06, 6.156488933039311e-05,
         0.0008967330466022433, 0.007158590268753316, 0.06714472425521385, 0.22363630728766323, 1.1283791670955126),
        (1.223489802499138e-18, 2.62809371861997e-15, 5.908256604283018e-13, 3.621968380668151e-11,
         1.4348966604551637e-09, 4.181381363560392e-08, 9.456880062584284e-07, 1.6934272542831562e-05,
         0.00024048061326281545, 0.0026728230920052437, 0.022561322881509083, 0.13668074599055674,
         0.531525850360488, 1.0),
    ),
}  # fmt: skip


class ElementaryForms(Base):
    """Functions of one tensor, element by element."""

    def elementary(self, name: str, x: Value) -> Value:
        """The function that ONNX calls `name`, as one operator or as a formula."""
        written_out = _WRITTEN_OUT.get(name)
        if written_out is None or self.has_kernel(name, x.dtype):
            return self.op(name, x)
        if x.dtype in (torch.float16, torch.bfloat16):
            return self.cast(written_out(self, self.cast(x, torch.float32)), x.dtype)
        return written_out(self, x)

    def exp_minus_one(self, x: Value) -> Value:
        """exp(x) - 1 without cancellation: tanh(x/2) * (exp(x) + 1)"""
        return self.op("Mul", self.op("Tanh", self.op("Mul", x, 0.5)), self.op("Add", self.op("Exp", x), 1))

    def log_of_one_plus(self, x: Value) -> Value:
        """log(1 + x), corrected for the rounding of 1 + x: log(u) + (x - (u - 1)) / u where u = 1 + x"""
        # Limited, so that the correction is finite where the logarithm is not.
        bounded = self.clip(x, -1 + torch.finfo(x.dtype).eps, min(1e30, torch.finfo(x.dtype).max))
        u = self.op("Add", bounded, 1)
        correction = self.op("Div", self.op("Sub", bounded, self.op("Sub", u, 1)), u)
        return self.op("Add", self.op("Log", self.op("Add", x, 1)), correction)

    def softplus(self, x: Value) -> Value:
        """log(1 + exp(x)), which is max(x, 0) + log(1 + exp(-|x|))"""
        if x.dtype is torch.float16:
            # onnxruntime's kernel of halves overflows from 88.75 on.
            return self.cast(self.softplus(self.cast(x, torch.float32)), x.dtype)
        if self.has_kernel("Softplus", x.dtype):
            return self.op("Softplus", x)
        small = self.op("Exp", self.op("Neg", self.op("Abs", x)))
        return self.op("Add", self.op("Relu", x), self.log_of_one_plus(small))

    def trunc(self, x: Value) -> Value:
        return self.op("Mul", self.op("Floor", self.op("Abs", x)), self.sign(x))

    def polynomial(self, coefficients: Sequence[float], x: Value) -> Value:
        """The polynomial with these coefficients, that of the highest power first."""
        total = self.const(coefficients[0], x.dtype)
        for coefficient in coefficients[1:]:
            total = self.op("Add", self.op("Mul", total, x), coefficient)
        return total

    # --- formulas -------------------------------------------------------------------------------------------------

    def _erf(self, x: Value) -> Value:
        bound, numerator, denominator = _ERF[x.dtype]
        x = self.clip(x, -bound, bound)
        square = self.op("Mul", x, x)
        return self.op(
            "Div", self.op("Mul", x, self.polynomial(numerator, square)), self.polynomial(denominator, square)
        )

    def _round(self, x: Value) -> Value:
        """To the nearest integer, halves to the even one; from above, so that -0.4 becomes -0.0"""
        high = self.op("Ceil", x)
        part = self.op("Sub", high, x)
        halved = self.op("Mul", high, 0.5)
        odd = self.op("Greater", halved, self.op("Floor", halved))
        half = self.const(0.5, x.dtype)
        down = self.op("Or", self.op("Greater", part, half), self.op("And", odd, self.equal(part, half)))
        return self.op("Sub", high, self.cast(down, x.dtype))

    def _sinh(self, x: Value) -> Value:
        """tanh(x/2) * (1 + cosh(x)), which has no cancellation near 0"""
        return self.op("Mul", self.op("Tanh", self.op("Mul", x, 0.5)), self.op("Add", self._cosh(x), 1))

    def _cosh(self, x: Value) -> Value:
        """(h*h + 1/(h*h)) / 2 where h = exp(x/2), so that nothing overflows before the result does"""
        h = self.op("Exp", self.op("Mul", x, 0.5))
        halved = self.op("Mul", h, 0.5)
        rising = self.op("Mul", halved, h)
        falling = self.op("Div", self.op("Reciprocal", h), self.op("Add", h, h))
        return self.op("Add", rising, falling)

    def _asinh(self, x: Value) -> Value:
        """sign(x) * log1p(a + a / (1/a + sqrt(1 + 1/a²))) where a = |x|"""
        a = self.op("Abs", x)
        inverse = self.op("Reciprocal", a)
        root = self.op("Sqrt", self.op("Add", self.op("Mul", inverse, inverse), 1))
        grown = self.op("Add", a, self.op("Div", a, self.op("Add", inverse, root)))
        return self.op("Mul", self.sign(x), self.log_of_one_plus(grown))

    def _acosh(self, x: Value) -> Value:
        """log1p(t + sqrt(t) * sqrt(t + 2)) where t = x - 1"""
        t = self.op("Sub", x, 1)
        roots = self.op("Mul", self.op("Sqrt", t), self.op("Sqrt", self.op("Add", t, 2)))
        return self.log_of_one_plus(self.op("Add", t, roots))

    def _atanh(self, x: Value) -> Value:
        """sign(x) * log1p(2a / (1 - a)) / 2 where a = |x|"""
        a = self.op("Abs", x)
        ratio = self.op("Div", self.op("Add", a, a), self.op("Sub", self.const(1, x.dtype), a))
        return self.op("Mul", self.op("Mul", self.sign(x), 0.5), self.log_of_one_plus(ratio))

    def _tan(self, x: Value) -> Value:
        return self.op("Div", self.op("Sin", x), self.op("Cos", x))

    def _atan(self, x: Value) -> Value:
        """y + (x cos y - sin y) / (cos y + x sin y), where y is Atan in float32 and the fraction corrects its error"""
        y = self.cast(self.op("Atan", self.cast(x, torch.float32)), torch.float64)
        sine, cosine = self.op("Sin", y), self.op("Cos", y)
        # Limited, so that infinity times a cosine near 0 is a number.
        x = self.clip(x, -1e300, 1e300)
        rest = self.op(
            "Div",
            self.op("Sub", self.op("Mul", x, cosine), sine),
            self.op("Add", cosine, self.op("Mul", x, sine)),
        )
        return self.op("Add", y, rest)

    def _asin(self, x: Value) -> Value:
        """atan(x / sqrt((1 - x) * (1 + x)))"""
        below = self.op("Sub", self.const(1, x.dtype), x)
        return self._atan(self.op("Div", x, self.op("Sqrt", self.op("Mul", below, self.op("Add", x, 1)))))

    def _acos(self, x: Value) -> Value:
        """2 * atan(sqrt((1 - x) / (1 + x)))"""
        below = self.op("Sub", self.const(1, x.dtype), x)
        return self.op("Mul", self._atan(self.op("Sqrt", self.op("Div", below, self.op("Add", x, 1)))), 2)

    def _softsign(self, x: Value) -> Value:
        return self.op("Div", x, self.op("Add", self.op("Abs", x), 1))

    def _gelu(self, x: Value) -> Value:
        """x * (1 + erf(x / sqrt(2))) / 2, with a division, by which onnxruntime finds it"""
        doubled = self.op("Add", self.elementary("Erf", self.op("Div", x, math.sqrt(2))), 1)
        return self.op("Mul", self.op("Mul", x, doubled), 0.5)


_WRITTEN_OUT: dict[str, Callable[[ElementaryForms, Value], Value]] = {
    "Erf": ElementaryForms._erf,
    "Round": ElementaryForms._round,
    "Sinh": ElementaryForms._sinh,
    "Cosh": ElementaryForms._cosh,
    "Tan": ElementaryForms._tan,
    "Asinh": ElementaryForms._asinh,
    "Acosh": ElementaryForms._acosh,
    "Atanh": ElementaryForms._atanh,
    "Asin": ElementaryForms._asin,
    "Acos": ElementaryForms._acos,
    "Atan": ElementaryForms._atan,
    "Softsign": ElementaryForms._softsign,
    "Gelu": ElementaryForms._gelu,
}
