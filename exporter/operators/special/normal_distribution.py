"""Functions of the normal distribution: the scaled complementary error function, and the inverse of ndtr."""

from __future__ import annotations

import math

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.special.series import Series, choose, number, result, wide
from onnx_parity.exporter.registry.lowerings import lowering

#: M. Abramowitz and I. Stegun, 26.2.23: the inverse within 4.5e-4, from sqrt(-2 log(p)), the highest power first.
_ABOVE, _BELOW = (0.010328, 0.802853, 2.515517), (0.001308, 0.189269, 1.432788, 1.0)
#: erfcx(z) / t where t = 2 / (2 + z), over 2 t - 1: computed with mpmath in 40 digits.
_SCALED_TAIL = Series((
    1.1540674772329393, 0.3554369212704985, 0.06509515882878653, 0.003671142395836639, -0.0011128447433526325,
    -0.0001607582991537808, 3.278031574173137e-05, 5.442441645505016e-06, -1.5154665553171482e-06,
    -1.4297608181169865e-07, 8.234608827419493e-08, -1.2962846852306563e-09, -4.154721631015199e-09,
    6.347058278362811e-10, 1.4320822712256225e-10, -6.160390105204585e-11, 2.0612138554721698e-12,
    3.5714931488477042e-12, -8.586422843251796e-13, -6.14560021379063e-14, 7.418725748596617e-14,
    -1.2895042755032325e-14, -2.358726385710632e-15, 1.5729349381685912e-15, -2.2782966239546465e-16,
    -6.31233045075643e-17, 3.5916763531814925e-17,
))  # fmt: skip


def _scaled_tail(g: Graph, z: Value) -> Value:
    """erfcx(z) for z that are not negative"""
    t = g.op("Div", number(g, 2), g.op("Add", z, 2))
    return g.op("Mul", t, _SCALED_TAIL.at(g, g.op("Sub", g.op("Mul", t, 4), 2)))


@lowering("aten::special_erfcx")
def erfcx(g: Graph, self: Value) -> Value:
    """exp(x²) * erfc(x); below 0, 2 exp(x²) - erfcx(-x)"""
    x = wide(g, self)
    tail = _scaled_tail(g, g.op("Abs", x))
    growth = g.op("Exp", g.op("Mul", x, x))
    return result(g, choose(g, g.less(x, number(g, 0)), g.op("Sub", g.op("Add", growth, growth), tail), tail))


@lowering("aten::special_ndtri")
def ndtri(g: Graph, self: Value) -> Value:
    """The x for which the probability below x is p

    For p up to 1/2, an approximation, and three steps of Newton's method on log(ndtr(x)) - log(p), which is almost a
    square where p is small; above 1/2, the opposite of that for 1 - p.
    """
    p = wide(g, self)
    is_upper = g.greater(p, number(g, 0.5))
    lower = choose(g, is_upper, g.op("Sub", number(g, 1), p), p)
    bounded = g.clip(lower, math.ulp(0.0), 0.5)
    logarithm = g.op("Log", bounded)
    t = g.op("Sqrt", g.op("Mul", logarithm, -2))
    x = g.op("Sub", g.op("Div", g.polynomial(_ABOVE, t), g.polynomial(_BELOW, t)), t)
    for _ in range(3):
        scaled = g.op("Mul", x, -math.sqrt(0.5))
        tail = _scaled_tail(g, scaled)
        # log(ndtr(x)) is log(erfcx(-x / sqrt(2)) / 2) - x² / 2, and the slope of it is sqrt(2 / pi) / erfcx.
        found = g.op("Sub", g.op("Log", g.op("Mul", tail, 0.5)), g.op("Mul", scaled, scaled))
        step = g.op("Mul", g.op("Mul", g.op("Sub", found, logarithm), tail), math.sqrt(math.pi / 2))
        x = g.op("Sub", x, step)
    x = choose(g, is_upper, g.op("Neg", x), x)
    for end, value in ((0.0, -math.inf), (0.5, 0.0), (1.0, math.inf)):
        x = choose(g, g.equal(p, number(g, end)), number(g, value), x)
    is_outside = g.op("Or", g.less(p, number(g, 0)), g.greater(p, number(g, 1)))
    return result(g, choose(g, is_outside, number(g, math.nan), x))
