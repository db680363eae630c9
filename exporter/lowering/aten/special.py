"""Special functions that ONNX has no operators for: erfc, erfinv, lgamma, digamma, i0, computed in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.registry import lowering
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value

#: erfc(z) = t * exp(p(t) - z²), where t = 2 / (2 + z): the Chebyshev series of p over t from 0 to 1, in 40 digits.
_ERFC = (
    -1.3026537197817094, 0.6419697923564902, 0.019476473204185836, -0.009561514786808632, -0.0009465953444820369,
    0.00036683949785276145, 4.252332480690777e-05, -2.0278578112534242e-05, -1.6242900046470256e-06,
    1.3036558355805232e-06, 1.5626441722066142e-08, -8.523809591492654e-08, 6.5290544390988515e-09,
    5.059343495551469e-09, -9.91364156493033e-10, -2.273651222931836e-10, 9.646791102015527e-11,
    2.3940380830391146e-12, -6.886027526497553e-12, 8.944879273090725e-13, 3.130921399342958e-13,
    -1.1270822361367252e-13,
)  # fmt: skip
#: The number of its terms that narrower dtypes need, with an error of at most 6e-9.
_ERFC_TERMS = 13
#: M. Giles, 2012: the inverse of erf is x times a polynomial in w - 2.5, or from w = 5 on in sqrt(w) - 3, where
#: w = -log(1 - x²).
_INVERSE_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_INVERSE_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip
#: C. Lanczos' approximation of the gamma function, with g = 7.
_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
#: B(2n) / 2n, from the highest n down: digamma(x) = log(x) - 1 / 2x - the sum of B(2n) / 2n / x**2n.
_STIRLING = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
#: By how much digamma increases its argument so that the series converges.
_STEPS = 10
#: exp(-x) * i0(x) for x from 0 to 8, as a Chebyshev series over x / 4 - 1, from Cephes, as in torch.
_I0_NEAR = (
    0.6767952744094761, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357, -0.0005763755745385824,
    0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06,
    1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08,
    2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12,
    -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15,
    -2.431279846547955e-16, 3.3307945188222384e-17, -4.4153416464793395e-18,
)  # fmt: skip
#: exp(-x) * i0(x) * sqrt(x) for x from 8 on, as a Chebyshev series over 16 / x - 1, from Cephes, as in torch.
_I0_FAR = (
    0.8044904110141088, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06, 2.0489185894690638e-07,
    2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10, 1.1889147107846439e-11,
    -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,
    3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14, -9.554846698828307e-15,
    3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16, -2.8276239805165836e-16,
    3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18,
)  # fmt: skip
#: The numbers of their terms that narrower dtypes need, with an error of at most 2e-10.
_I0_NEAR_TERMS, _I0_FAR_TERMS = 20, 8


def _wide(g: Graph, x: Value) -> Value:
    return shaped(g.cast(x, torch.float64), x.shape)


def _result(g: Graph, x: Value) -> Value:
    return g.cast(x, g.out.dtype)


def _number(g: Graph, number: float) -> Value:
    return g.const(number, torch.float64)


def _choose(g: Graph, condition: Value, a: Value, b: Value) -> Value:
    return g.where(shaped(condition, g.out.shape), shaped(a, g.out.shape), shaped(b, g.out.shape))


def _chebyshev(g: Graph, coefficients: Sequence[float], twice: Value) -> Value:
    """The Chebyshev series with these coefficients, the lowest first and to be halved, at half of `twice`."""
    first, *terms = coefficients
    last: Value = _number(g, 0)
    before: Value = _number(g, 0)
    for coefficient in reversed(terms):
        last, before = g.op("Add", g.op("Sub", g.op("Mul", twice, last), before), coefficient), last
    return g.op("Sub", g.op("Add", g.op("Mul", g.op("Mul", twice, last), 0.5), first / 2), before)


@lowering("aten::erfc")
def erfc(g: Graph, self: Value) -> Value:
    x = _wide(g, self)
    z = g.op("Abs", x)
    t = g.op("Div", _number(g, 2), g.op("Add", z, 2))
    twice = g.op("Sub", g.op("Mul", t, 4), 2)
    series = _chebyshev(g, _ERFC if g.out.dtype is torch.float64 else _ERFC[:_ERFC_TERMS], twice)
    tail = g.op("Mul", t, g.op("Exp", g.op("Sub", series, g.op("Mul", z, z))))
    found = _choose(g, g.less(x, _number(g, 0)), g.op("Sub", _number(g, 2), tail), tail)
    if g.out.dtype is torch.float64:
        # Near 0 the error of the exponent is not reduced by the exponential.
        found = _choose(g, g.less(z, _number(g, 0.75)), g.op("Sub", _number(g, 1), g.elementary("Erf", x)), found)
    return _result(g, found)


@lowering("aten::erfinv")
def erfinv(g: Graph, self: Value) -> Value:
    """An approximation in single precision, and two steps of Newton's method"""
    x = _wide(g, self)
    w = g.op("Neg", g.op("Log", g.op("Mul", g.op("Sub", _number(g, 1), x), g.op("Add", x, 1))))
    near = g.polynomial(_INVERSE_NEAR, g.op("Sub", w, 2.5))
    far = g.polynomial(_INVERSE_FAR, g.op("Sub", g.op("Sqrt", w), 3))
    y = g.op("Mul", _choose(g, g.less(w, _number(g, 5)), near, far), x)
    for _ in range(2):
        slope = g.op("Mul", g.op("Exp", g.op("Neg", g.op("Mul", y, y))), 2 / math.sqrt(math.pi))
        y = g.op("Sub", y, g.op("Div", g.op("Sub", g.elementary("Erf", y), x), slope))
    # At 1 and -1 it is infinite, with the sign of x / 0.
    is_end = g.equal(g.op("Abs", x), _number(g, 1))
    return _result(g, _choose(g, is_end, g.op("Div", x, _number(g, 0)), y))


@lowering("aten::lgamma")
def lgamma(g: Graph, self: Value) -> Value:
    """Below 1/2, log(pi / |sin(pi x)|) - lgamma(1 - x)"""
    x = _wide(g, self)
    reflected = g.less(x, _number(g, 0.5))
    z = g.op("Sub", _choose(g, reflected, g.op("Sub", _number(g, 1), x), x), 1)
    total: Value = _number(g, _LANCZOS[0])
    for number, coefficient in enumerate(_LANCZOS[1:], 1):
        total = g.op("Add", total, g.op("Div", _number(g, coefficient), g.op("Add", z, number)))
    t = g.op("Add", z, 7.5)
    power = g.op("Sub", g.op("Mul", g.op("Add", z, 0.5), g.op("Log", t)), t)
    result = g.op("Add", g.op("Add", power, g.op("Log", total)), 0.5 * math.log(2 * math.pi))
    # The sine of the fractional part is exactly 0 at integers, where the function is infinite.
    sine = g.op("Abs", g.op("Sin", g.op("Mul", g.op("Sub", x, g.op("Floor", x)), math.pi)))
    mirrored = g.op("Sub", g.op("Log", g.op("Div", _number(g, math.pi), sine)), result)
    found = _choose(g, reflected, mirrored, result)
    return _result(g, _choose(g, g.is_infinite(x), _number(g, math.inf), found))


@lowering("aten::digamma")
def digamma(g: Graph, self: Value) -> Value:
    """Stirling's series at x + 10, less 1 / (x + n) for n from 0 to 9; below 0, digamma(1 - x) - pi / tan(pi x)"""
    x = _wide(g, self)
    reflected = g.less(x, _number(g, 0))
    z = _choose(g, reflected, g.op("Sub", _number(g, 1), x), x)
    steps: Value = g.op("Reciprocal", z)
    for number in range(1, _STEPS):
        steps = g.op("Add", steps, g.op("Reciprocal", g.op("Add", z, number)))
    above = g.op("Add", z, _STEPS)
    inverse = g.op("Reciprocal", above)
    square = g.op("Mul", inverse, inverse)
    series = g.op("Add", g.op("Mul", g.polynomial(_STIRLING, square), square), g.op("Mul", inverse, 0.5))
    result = g.op("Sub", g.op("Sub", g.op("Log", above), series), steps)
    part = _choose(g, reflected, g.op("Sub", x, g.op("Floor", x)), _number(g, 0.5))
    sine, cosine = (g.op(name, g.op("Mul", part, math.pi)) for name in ("Sin", "Cos"))
    cotangent = g.op("Div", g.op("Mul", cosine, math.pi), sine)
    # Infinity times 0 is NaN, the value of the function at negative integers.
    nan_at_integers = g.op("Mul", g.op("Reciprocal", sine), 0)
    mirrored = g.op("Add", g.op("Sub", result, cotangent), nan_at_integers)
    return _result(g, _choose(g, reflected, mirrored, result))


def _scaled_i0(g: Graph, magnitude: Value) -> Value:
    """exp(-x) * i0(x), where x is not negative"""
    is_wide = g.out.dtype is torch.float64
    # Each series is evaluated inside its range only: outside it may become infinite or NaN, which `where` before
    # opset 9 would not ignore.
    small, large = g.clip(magnitude, None, 8), g.clip(magnitude, 8, None)
    inside = g.op("Sub", g.op("Mul", small, 0.5), 2)
    near = _chebyshev(g, _I0_NEAR if is_wide else _I0_NEAR[:_I0_NEAR_TERMS], inside)
    inverse = g.op("Sub", g.op("Div", _number(g, 32), large), 2)
    far = g.op("Div", _chebyshev(g, _I0_FAR if is_wide else _I0_FAR[:_I0_FAR_TERMS], inverse), g.op("Sqrt", large))
    return _choose(g, g.less(magnitude, _number(g, 8)), near, far)


@lowering("aten::i0")
def i0(g: Graph, self: Value) -> Value:
    """The modified Bessel function of the first kind of order 0; infinite where exp(|x|) is, as in torch"""
    # torch computes the exponential of halves in float32.
    magnitude = g.op("Abs", g.cast(self, torch.float64 if g.out.dtype is torch.float64 else torch.float32))
    growth = g.cast(g.op("Exp", magnitude), torch.float64)
    return _result(g, g.op("Mul", growth, _scaled_i0(g, _wide(g, magnitude))))


@lowering("aten::special_i0e")
def i0e(g: Graph, self: Value) -> Value:
    """exp(-|x|) * i0(x)"""
    return _result(g, _scaled_i0(g, g.op("Abs", _wide(g, self))))
