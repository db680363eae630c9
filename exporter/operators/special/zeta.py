"""Hurwitz' zeta function, and the derivatives of digamma, which are multiples of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import same_shape
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.special.lowering import digamma
from onnx_parity.exporter.operators.special.series import choose, number, result, wide
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.recorded import instead_of

#: B(2j) / (2j)! for j from 1 on, of the formula of Euler and Maclaurin.
_EULER_MACLAURIN = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000, -174611 / 802857662698291200000,
)  # fmt: skip
#: Up to which number the terms of the sum are added one by one.
_ONE_BY_ONE = 10
#: No sum has more terms, which would be those of an argument below -1,000,000.
_MOST_TERMS = 1_000_000


@lowering("aten::special_zeta")
def zeta(g: Graph, self: Value | float, other: Value | float) -> Value:
    """The sum of (k + q) ** -s over all k from 0 on

    It is NaN for s below 1, and for negative q unless s is an integer; infinite at s = 1 and where a term is.
    """
    s, q = (_expanded(g, wide(g, x) if isinstance(x, Value) else g.scalar(x, torch.float64)) for x in (self, other))
    return result(g, _zeta(g, s, q))


def _zeta(g: Graph, s: Value, q: Value) -> Value:
    zero, one = number(g, 0), number(g, 1)
    is_integer = g.equal(s, g.op("Floor", s))
    is_low = g.less(s, one)
    is_pole = g.op("And", g.op("Not", g.greater(q, zero)), g.equal(q, g.op("Floor", q)))
    is_term = g.op("And", is_pole, g.op("Not", is_low))
    is_undefined = g.op("Or", is_low, g.op("And", g.less(q, zero), g.op("Not", is_integer)))
    # Outside of the domain, the sum is computed of other numbers.
    exponent = choose(g, g.greater(s, one), s, number(g, 2))
    outside = g.op("Or", is_term, g.op("Or", is_undefined, g.op("Or", g.is_nan(q), g.is_infinite(q))))
    start = choose(g, outside, one, q)
    even = choose(g, g.equal(exponent, _times_two(g, g.op("Floor", g.op("Mul", exponent, 0.5)))), one, number(g, -1))

    def step(k: Value, carried: list[Value]) -> Sequence[Value]:
        total, place = carried
        power = g.op("Pow", g.op("Abs", place), g.op("Neg", exponent))
        term = g.op("Mul", power, choose(g, g.less(place, zero), even, one))
        return [g.op("Add", total, term), g.op("Add", place, 1)]

    least = g.reduce("Min", start, list(range(start.rank)), False)
    count = g.clip(g.op("Ceil", g.op("Sub", number(g, _ONE_BY_ONE), least)), 0, _MOST_TERMS)
    terms = g.cast(count, torch.int64)
    total, place = g.repeat(terms, [g.full(g.out.shape, 0, torch.float64), start], step)
    found = g.op("Add", total, _rest(g, exponent, place))
    # Of an infinite q the sum is 0, and torch's is NaN.
    is_undefined = g.op("Or", g.op("Or", is_undefined, g.is_nan(s)), g.op("Or", g.is_nan(q), g.is_infinite(q)))
    for condition, value in ((is_undefined, math.nan), (is_term, math.inf)):
        found = choose(g, condition, number(g, value), found)
    return choose(g, g.equal(s, one), number(g, math.inf), found)


def _rest(g: Graph, s: Value, a: Value) -> Value:
    """The sum from a on by the formula of Euler and Maclaurin: a ** (1 - s) / (s - 1) + a ** -s / 2 + ..."""
    power = g.op("Pow", a, g.op("Neg", s))
    total = g.op("Add", g.op("Div", g.op("Mul", power, a), g.op("Sub", s, 1)), g.op("Mul", power, 0.5))
    term = g.op("Div", g.op("Mul", power, s), a)
    for j, coefficient in enumerate(_EULER_MACLAURIN):
        if j:
            rising = g.op("Mul", g.op("Add", s, 2 * j - 1), g.op("Add", s, 2 * j))
            term = g.op("Div", g.op("Div", g.op("Mul", term, rising), a), a)
        total = g.op("Add", total, g.op("Mul", term, coefficient))
    return total


@lowering("aten::polygamma")
def polygamma(g: Graph, n: int, self: Value) -> Value:
    """(-1) ** (n + 1) * n! * zeta(n + 1, x)"""
    if n == 0:
        return digamma(g, self)
    x = wide(g, self)
    if n == 1:
        return _trigamma(g, self, x)
    sum_of_powers = _zeta(g, g.full(x.sizes, n + 1, torch.float64), x)
    return result(g, g.op("Mul", sum_of_powers, math.factorial(n) * (-1.0) ** (n + 1)))


def _trigamma(g: Graph, given: Value, x: Value) -> Value:
    """Below 1/2, (pi / sin(pi x))² - trigamma(1 - x), with a sine of the precision that torch computes it in"""
    reflected = g.less(x, number(g, 0.5))
    mirrored = choose(g, reflected, g.op("Sub", number(g, 1), x), x)
    found = _zeta(g, g.full(x.sizes, 2, torch.float64), mirrored)
    found = choose(g, g.is_infinite(mirrored), number(g, 0), found)
    single = g.cast(given, torch.float64 if g.out.dtype is torch.float64 else torch.float32)
    sine = g.cast(g.op("Sin", g.op("Mul", single, math.pi)), torch.float64)
    root = g.op("Div", number(g, math.pi), sine)
    return result(g, choose(g, reflected, g.op("Sub", g.op("Mul", root, root), found), found))


def _expanded(g: Graph, x: Value) -> Value:
    return x if same_shape(x.sizes, g.out.shape) else g.expand(x, g.out.shape)


def _times_two(g: Graph, x: Value) -> Value:
    return g.op("Add", x, x)


@instead_of("aten::polygamma_", why="torch's functionalization takes it for an operator of somebody else")
def polygamma_(self: torch.Tensor, n: int) -> torch.Tensor:
    return self.copy_(torch.polygamma(n, self))
