"""Special functions that ONNX has no operators for: erfc, erfinv, lgamma and digamma, computed in float64."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.special.series import chebyshev, choose, number, result, wide
from onnx_parity.exporter.registry.in_place import DYNAMIC, DYNAMIC_HALVES, copy_back
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.recorded import decomposition_of
from onnx_parity.exporter.registry.results import result_of

__all__ = ["digamma"]

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


@lowering("aten::erfc")
def erfc(g: Graph, self: Value) -> Value:
    x = wide(g, self)
    z = g.op("Abs", x)
    t = g.op("Div", number(g, 2), g.op("Add", z, 2))
    twice = g.op("Sub", g.op("Mul", t, 4), 2)
    series = chebyshev(g, _ERFC if g.out.dtype is torch.float64 else _ERFC[:_ERFC_TERMS], twice)
    tail = g.op("Mul", t, g.op("Exp", g.op("Sub", series, g.op("Mul", z, z))))
    found = choose(g, g.less(x, number(g, 0)), g.op("Sub", number(g, 2), tail), tail)
    if g.out.dtype is torch.float64:
        # Near 0 the error of the exponent is not reduced by the exponential.
        found = choose(g, g.less(z, number(g, 0.75)), g.op("Sub", number(g, 1), g.elementary("Erf", x)), found)
    return result(g, found)


@lowering("aten::erfinv")
def erfinv(g: Graph, self: Value) -> Value:
    """An approximation in single precision, and two steps of Newton's method"""
    x = wide(g, self)
    w = g.op("Neg", g.op("Log", g.op("Mul", g.op("Sub", number(g, 1), x), g.op("Add", x, 1))))
    near = g.polynomial(_INVERSE_NEAR, g.op("Sub", w, 2.5))
    far = g.polynomial(_INVERSE_FAR, g.op("Sub", g.op("Sqrt", w), 3))
    y = g.op("Mul", choose(g, g.less(w, number(g, 5)), near, far), x)
    for _ in range(2):
        slope = g.op("Mul", g.op("Exp", g.op("Neg", g.op("Mul", y, y))), 2 / math.sqrt(math.pi))
        y = g.op("Sub", y, g.op("Div", g.op("Sub", g.elementary("Erf", y), x), slope))
    # At 1 and -1 it is infinite, with the sign of x / 0.
    is_end = g.equal(g.op("Abs", x), number(g, 1))
    return result(g, choose(g, is_end, g.op("Div", x, number(g, 0)), y))


@lowering("aten::lgamma")
def lgamma(g: Graph, self: Value) -> Value:
    """Below 1/2, log(pi / |sin(pi x)|) - lgamma(1 - x)"""
    x = wide(g, self)
    reflected = g.less(x, number(g, 0.5))
    z = g.op("Sub", choose(g, reflected, g.op("Sub", number(g, 1), x), x), 1)
    total: Value = number(g, _LANCZOS[0])
    for step, coefficient in enumerate(_LANCZOS[1:], 1):
        total = g.op("Add", total, g.op("Div", number(g, coefficient), g.op("Add", z, step)))
    t = g.op("Add", z, 7.5)
    power = g.op("Sub", g.op("Mul", g.op("Add", z, 0.5), g.op("Log", t)), t)
    whole = g.op("Add", g.op("Add", power, g.op("Log", total)), 0.5 * math.log(2 * math.pi))
    # At 1 and 2, where z is 0 and 1, it is exactly 0.
    is_zero = g.equal(g.op("Mul", z, g.op("Sub", z, 1)), number(g, 0))
    whole = choose(g, is_zero, number(g, 0), whole)
    # The sine is exactly 0 at integers, where the function is infinite.
    sine = g.op("Abs", g.op("Sin", g.op("Mul", _beyond_integer(g, x), math.pi)))
    mirrored = g.op("Sub", g.op("Log", g.op("Div", number(g, math.pi), sine)), whole)
    found = choose(g, reflected, mirrored, whole)
    return result(g, choose(g, g.is_infinite(x), number(g, math.inf), found))


def _beyond_integer(g: Graph, x: Value) -> Value:
    """x less the nearest integer, which is exact; less the one below, it is rounded where x is close to that above"""
    return g.op("Sub", x, g.op("Floor", g.op("Add", x, 0.5)))


@lowering("aten::digamma")
def digamma(g: Graph, self: Value) -> Value:
    """Stirling's series at x + 10, less 1 / (x + n) for n from 0 to 9; below 0, digamma(1 - x) - pi / tan(pi x)"""
    x = wide(g, self)
    reflected = g.less(x, number(g, 0))
    z = choose(g, reflected, g.op("Sub", number(g, 1), x), x)
    steps: Value = g.op("Reciprocal", z)
    for step in range(1, _STEPS):
        steps = g.op("Add", steps, g.op("Reciprocal", g.op("Add", z, step)))
    above = g.op("Add", z, _STEPS)
    inverse = g.op("Reciprocal", above)
    square = g.op("Mul", inverse, inverse)
    series = g.op("Add", g.op("Mul", g.polynomial(_STIRLING, square), square), g.op("Mul", inverse, 0.5))
    whole = g.op("Sub", g.op("Sub", g.op("Log", above), series), steps)
    part = choose(g, reflected, _beyond_integer(g, x), number(g, 0.5))
    sine, cosine = (g.op(name, g.op("Mul", part, math.pi)) for name in ("Sin", "Cos"))
    cotangent = g.op("Div", g.op("Mul", cosine, math.pi), sine)
    # Infinity times 0 is NaN, the value of the function at negative integers.
    nan_at_integers = g.op("Mul", g.op("Reciprocal", sine), 0)
    mirrored = g.op("Add", g.op("Sub", whole, cotangent), nan_at_integers)
    return result(g, choose(g, reflected, mirrored, whole))


# --- what is recorded instead -----------------------------------------------------------------------------------------


_ROUNDS = "torch's decomposition computes with the number, which its kernel rounds to the dtype of the result"


def _as_tensor(number: float, x: torch.Tensor) -> torch.Tensor:
    """A number in the dtype of the result of a function of it and a tensor."""
    return torch.full([], number, dtype=torch.result_type(x, 1.0), device=x.device)


@decomposition_of("aten::xlogy.Scalar_Other", why=_ROUNDS)
def xlogy_of_number(self: torch.Tensor, other: float) -> torch.Tensor:
    return torch.xlogy(self, _as_tensor(other, self))


@decomposition_of("aten::xlogy.Scalar_Self", why=_ROUNDS)
def xlogy_by_number(self: float, other: torch.Tensor) -> torch.Tensor:
    return torch.xlogy(_as_tensor(self, other), other)


@decomposition_of("aten::special_xlog1py.other_scalar", why=_ROUNDS)
def xlog1py_of_number(self: torch.Tensor, other: float) -> Any:
    return torch.special.xlog1py(self, _as_tensor(other, self))


@decomposition_of("aten::special_xlog1py.self_scalar", why=_ROUNDS)
def xlog1py_by_number(self: float, other: torch.Tensor) -> Any:
    return torch.special.xlog1py(_as_tensor(self, other), other)


@decomposition_of("aten::logit", why=_ROUNDS)
def logit(self: torch.Tensor, eps: float | None = None) -> Any:
    if eps is None or self.dtype not in (torch.float16, torch.bfloat16):
        return NotImplemented
    least = _as_tensor(eps, self)
    return torch.logit(torch.minimum(torch.maximum(self, least), 1 - least))


copy_back("igamma_", "igammac_", "logit_", "mvlgamma_", "sinc_", "xlogy_", to=DYNAMIC)
copy_back("digamma_", "erfc_", "erfinv_", "i0_", "lgamma_", to=DYNAMIC_HALVES)


@result_of(
    *(f"aten::special_{name}" for name in dir(torch.special) if "_polynomial_" in name),
    why="torch's kernels expand the one that has fewer axes to plain ints",
    static=False,
)
def polynomial(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """A quotient has the same sizes, and the dtype of floats. It is not recorded."""
    return torch.true_divide(x, n)
