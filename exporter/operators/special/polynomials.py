"""Orthogonal polynomials of a degree that is a tensor: Chebyshev's, Hermite's, Laguerre's and Legendre's.

Each is computed by its recurrence of three terms, in a Loop up to the largest degree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec
import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import same_shape
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.special.series import choose, number, result, wide
from onnx_parity.exporter.registry.lowerings import lowering

#: The next polynomial from the number k of the last one, x, the last one and the one before it.
_Next = Callable[[Graph, Value, Value, Value, Value], Value]


class _Family(msgspec.Struct, frozen=True):
    """The polynomial of degree 1 is slope * x + offset, and that of degree 0 is 1."""

    slope: float
    offset: float
    next: _Next


def _chebyshev(g: Graph, k: Value, x: Value, last: Value, before: Value) -> Value:
    """2 x p(k) - p(k - 1)"""
    return g.op("Sub", g.op("Mul", g.op("Add", x, x), last), before)


def _hermite(g: Graph, k: Value, x: Value, last: Value, before: Value) -> Value:
    """2 x p(k) - 2 k p(k - 1)"""
    rest = g.op("Sub", g.op("Mul", x, last), g.op("Mul", k, before))
    return g.op("Add", rest, rest)


def _hermite_of_probability(g: Graph, k: Value, x: Value, last: Value, before: Value) -> Value:
    """x p(k) - k p(k - 1)"""
    return g.op("Sub", g.op("Mul", x, last), g.op("Mul", k, before))


def _laguerre(g: Graph, k: Value, x: Value, last: Value, before: Value) -> Value:
    """((2 k + 1 - x) p(k) - k p(k - 1)) / (k + 1)"""
    above = g.op("Add", k, 1)
    factor = g.op("Sub", g.op("Add", k, above), x)
    return g.op("Div", g.op("Sub", g.op("Mul", factor, last), g.op("Mul", k, before)), above)


def _legendre(g: Graph, k: Value, x: Value, last: Value, before: Value) -> Value:
    """((2 k + 1) x p(k) - k p(k - 1)) / (k + 1)"""
    above = g.op("Add", k, 1)
    factor = g.op("Mul", g.op("Add", k, above), x)
    return g.op("Div", g.op("Sub", g.op("Mul", factor, last), g.op("Mul", k, before)), above)


_FAMILIES = {
    "chebyshev_polynomial_t": _Family(1, 0, _chebyshev),
    "chebyshev_polynomial_u": _Family(2, 0, _chebyshev),
    "chebyshev_polynomial_v": _Family(2, -1, _chebyshev),
    "chebyshev_polynomial_w": _Family(2, 1, _chebyshev),
    "hermite_polynomial_h": _Family(2, 0, _hermite),
    "hermite_polynomial_he": _Family(1, 0, _hermite_of_probability),
    "laguerre_polynomial_l": _Family(-1, 1, _laguerre),
    "legendre_polynomial_p": _Family(1, 0, _legendre),
}
#: The degree above which torch returns NaN for Hermite's polynomials.
_MOST_HERMITE = {torch.float32: 128, torch.float64: 512}


@lowering(
    *(f"aten::special_{name}" for name in _FAMILIES),
    *(f"aten::special_shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
)
def polynomial(g: Graph, x: Value | float, n: Value | float) -> Value:
    """The degree is rounded towards 0; below 0 the result is 0. Shifted polynomials are those of 2 x - 1"""
    name = g.operator.removeprefix("aten::special_")
    is_shifted = name.startswith("shifted_")
    family = _FAMILIES[name.removeprefix("shifted_")]
    degree = _expanded(g, g.trunc(_argument(g, n)))
    argument = _expanded(g, _argument(g, x))
    if is_shifted:
        argument = g.op("Sub", g.op("Add", argument, argument), 1)
    first = g.op("Add", g.op("Mul", argument, family.slope), family.offset)

    def step(iteration: Value, carried: list[Value]) -> Sequence[Value]:
        found, last, before = carried
        k = g.cast(g.op("Add", iteration, 1), torch.float64)
        following = family.next(g, k, argument, last, before)
        is_reached = g.equal(degree, g.op("Add", k, 1))
        return [choose(g, is_reached, following, found), following, last]

    zero, one = number(g, 0), g.full(g.out.shape, 1, torch.float64)
    start = choose(g, g.less(degree, zero), zero, choose(g, g.less(degree, one), one, first))
    steps = g.cast(g.op("Sub", g.reduce("Max", degree, list(range(degree.rank)), False), 1), torch.int64)
    trips = g.extreme("Max", steps, g.const(0))
    found, _, _ = g.repeat(trips, [start, first, one], step)
    if "hermite" in name:
        is_too_high = g.greater(degree, number(g, _MOST_HERMITE[g.out.dtype]))
        found = choose(g, is_too_high, number(g, math.nan), found)
    return result(g, found)


def _argument(g: Graph, x: Value | float) -> Value:
    return wide(g, x) if isinstance(x, Value) else g.scalar(x, torch.float64)


def _expanded(g: Graph, x: Value) -> Value:
    return x if same_shape(x.sizes, g.out.shape) else g.expand(x, g.out.shape)
