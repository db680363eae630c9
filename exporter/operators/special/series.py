"""What special functions are computed with: float64, and Chebyshev series over the ranges of an argument."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["Series", "chebyshev", "choose", "number", "result", "wide"]


def wide(g: Graph, x: Value) -> Value:
    """An argument in float64."""
    return g.cast(x, torch.float64)


def result(g: Graph, x: Value) -> Value:
    """A result in the dtype that torch returns."""
    return g.cast(x, g.out.dtype)


def number(g: Graph, value: float) -> Value:
    return g.const(value, torch.float64)


def choose(g: Graph, condition: Value, a: Value, b: Value) -> Value:
    """`a` where the condition holds, else `b`, of the shape of the result."""
    return g.where(condition, a, b)


def chebyshev(g: Graph, coefficients: Sequence[float], twice: Value) -> Value:
    """The Chebyshev series with these coefficients, the lowest first and to be halved, at half of `twice`."""
    first, *terms = coefficients
    last: Value = number(g, 0)
    before: Value = number(g, 0)
    for coefficient in reversed(terms):
        last, before = g.op("Add", g.op("Sub", g.op("Mul", twice, last), before), coefficient), last
    return g.op("Sub", g.op("Add", g.op("Mul", g.op("Mul", twice, last), 0.5), first / 2), before)


class Series:
    """A Chebyshev series, of which dtypes narrower than float64 need a few terms only."""

    def __init__(self, coefficients: Sequence[float]) -> None:
        self.coefficients = coefficients
        # The rest of the series is at most the sum of its coefficients.
        least = 2e-10 * max(map(abs, coefficients))
        count = len(coefficients)
        while sum(map(abs, coefficients[count - 1 :])) < least:
            count -= 1
        self.narrow = coefficients[:count]

    def at(self, g: Graph, twice: Value) -> Value:
        """The series at half of `twice`, to the precision of the result's dtype."""
        return chebyshev(g, self.coefficients if g.out.dtype is torch.float64 else self.narrow, twice)
