"""The incomplete gamma functions P and Q: a power series where x is small beside a, a continued fraction elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import same_shape
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.special.series import choose, number, result, wide
from onnx_parity.exporter.registry.lowerings import lowering

#: Stirling's series: log(gamma(a)) = (a - 1/2) log(a) - a + log(2 pi) / 2 + these / a ** (2n - 1), the last first.
_STIRLING = (43867 / 244188, -3617 / 122400, 1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
#: Where the series is accurate; below, the factors of gamma(a + 12) are divided by.
_LARGE = 12
#: For a = x = 1,000,000 about 8,000 terms are needed, and for other arguments fewer.
_MOST_TERMS = 20_000
_PRECISION = 2**-53
#: Stands for 0 in the continued fraction.
_TINY = 1e-290


@lowering("aten::igamma")
def igamma(g: Graph, self: Value, other: Value) -> Value:
    """P(a, x), which goes from 0 at x = 0 to 1 at infinity"""
    return result(g, _regularized(g, self, other, is_lower=True))


@lowering("aten::igammac")
def igammac(g: Graph, self: Value, other: Value) -> Value:
    """Q(a, x) = 1 - P(a, x)"""
    return result(g, _regularized(g, self, other, is_lower=False))


def _regularized(g: Graph, a_given: Value, x_given: Value, is_lower: bool) -> Value:
    a, x = (_expanded(g, wide(g, each)) for each in (a_given, x_given))
    zero, one = number(g, 0), number(g, 1)
    inside = g.op("And", g.greater(a, zero), g.greater(x, zero))
    inside = g.op("And", inside, g.op("Not", g.op("Or", g.is_infinite(a), g.is_infinite(x))))
    # Outside of the domain the functions are computed of 1, and replaced below.
    order, argument = choose(g, inside, a, one), choose(g, inside, x, one)
    by_series = g.less(argument, g.op("Add", order, 1))
    factor = _factor(g, order, argument)
    lower = g.op("Mul", g.op("Div", factor, order), _series(g, order, choose(g, by_series, argument, zero)))
    far = choose(g, by_series, g.op("Add", order, 20), argument)
    upper = g.op("Mul", factor, _continued_fraction(g, order, far))
    if is_lower:
        found = choose(g, by_series, lower, g.op("Sub", one, upper))
    else:
        found = choose(g, by_series, g.op("Sub", one, lower), upper)
    return _at_edges(g, a, x, found, is_lower)


def _at_edges(g: Graph, a: Value, x: Value, found: Value, is_lower: bool) -> Value:
    """0 at x = 0 and 1 at infinity, or the opposite; 1 or 0 at a = 0; NaN where torch returns that"""
    zero, start, end = number(g, 0), number(g, 0 if is_lower else 1), number(g, 1 if is_lower else 0)
    is_far, is_start = g.is_infinite(x), g.equal(x, zero)
    no_order, endless_order = g.equal(a, zero), g.is_infinite(a)
    for condition, value in ((is_far, end), (endless_order, start), (is_start, start), (no_order, end)):
        found = choose(g, condition, value, found)
    undefined = g.op("Or", g.less(a, zero), g.less(x, zero))
    for first, second in (
        (is_far, endless_order),
        (no_order, g.op("Not", g.greater(x, zero))),
        (g.is_nan(x), g.op("Not", endless_order)),
        (g.is_nan(a), g.op("Not", g.op("Or", is_start, is_far))),
    ):
        undefined = g.op("Or", undefined, g.op("And", first, second))
    return choose(g, undefined, number(g, math.nan), found)


def _factor(g: Graph, a: Value, x: Value) -> Value:
    """x ** a * exp(-x) / gamma(a)

    For large a, that is sqrt(a / 2 pi) * exp(a * (log(x / a) - (x - a) / a) - Stirling's series).
    """
    is_large = g.less(number(g, _LARGE), a)
    above = choose(g, is_large, a, g.op("Add", a, _LARGE))
    inverse = g.op("Reciprocal", above)
    rest = g.op("Mul", inverse, g.polynomial(_STIRLING, g.op("Mul", inverse, inverse)))
    apart = g.op("Div", g.op("Sub", x, a), a)
    decay = g.op("Mul", a, g.op("Sub", g.log_of_one_plus(apart), apart))
    root = g.op("Sqrt", g.op("Mul", a, 1 / (2 * math.pi)))
    large = g.op("Mul", root, g.op("Exp", g.op("Sub", decay, rest)))
    gamma = g.op("Sub", g.op("Mul", g.op("Sub", above, 0.5), g.op("Log", above)), above)
    gamma = g.op("Add", g.op("Add", gamma, rest), 0.5 * math.log(2 * math.pi))
    growth = g.op("Exp", g.op("Sub", g.op("Sub", g.op("Mul", a, g.op("Log", x)), x), gamma))
    for step in range(_LARGE):
        growth = g.op("Mul", growth, g.op("Add", a, step) if step else a)
    return choose(g, is_large, large, growth)


def _series(g: Graph, a: Value, x: Value) -> Value:
    """1 + x / (a + 1) + x² / ((a + 1) (a + 2)) + ..."""

    def step(number_of: Value, carried: list[Value]) -> Sequence[Value]:
        total, term, divisor = carried
        divisor = g.op("Add", divisor, 1)
        term = g.op("Div", g.op("Mul", term, x), divisor)
        total = g.op("Add", total, term)
        goes_on = g.greater(term, g.op("Mul", total, _PRECISION))
        return [_any(g, goes_on), total, term, divisor]

    ones = g.full(g.out.shape, 1, torch.float64)
    return g.repeat_while(_MOST_TERMS, [ones, ones, a], step)[0]


def _continued_fraction(g: Graph, a: Value, x: Value) -> Value:
    """1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ...))), by Lentz' method"""

    def step(iteration: Value, carried: list[Value]) -> Sequence[Value]:
        total, ratio, inverse, last = carried
        i = g.cast(g.op("Add", iteration, 1), torch.float64)
        numerator = g.op("Mul", i, g.op("Sub", a, i))
        last = g.op("Add", last, 2)
        inverse = _reciprocal(g, g.op("Add", g.op("Mul", numerator, inverse), last))
        ratio = _not_zero(g, g.op("Add", last, g.op("Div", numerator, ratio)))
        change = g.op("Mul", ratio, inverse)
        total = g.op("Mul", total, change)
        goes_on = g.greater(g.op("Abs", g.op("Sub", change, 1)), number(g, 2 * _PRECISION))
        return [_any(g, goes_on), total, ratio, inverse, last]

    first = g.op("Sub", g.op("Add", x, 1), a)
    inverse = _reciprocal(g, first)
    huge = g.full(g.out.shape, 1 / _TINY, torch.float64)
    return g.repeat_while(_MOST_TERMS, [inverse, huge, inverse, first], step)[0]


def _not_zero(g: Graph, x: Value) -> Value:
    return choose(g, g.less(g.op("Abs", x), number(g, _TINY)), number(g, _TINY), x)


def _reciprocal(g: Graph, x: Value) -> Value:
    return g.op("Reciprocal", _not_zero(g, x))


def _any(g: Graph, flags: Value) -> Value:
    """Whether any element is true. The greatest of no elements is less than 0."""
    most = g.reduce("Max", g.cast(flags, torch.int32), list(range(flags.rank)), False)
    return g.greater(most, g.const(0, torch.int32))


def _expanded(g: Graph, x: Value) -> Value:
    return x if same_shape(x.sizes, g.out.shape) else g.expand(x, g.out.shape)
