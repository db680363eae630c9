"""The exponential of matrices, by scaling, a Taylor polynomial and squaring."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.linear_algebra.loops.matrix_loops import identity_matrix, matrix_product
from onnx_parity.exporter.registry.lowerings import lowering

#: The degree of the Taylor polynomial. Where the 1-norm is at most 1, its error is 1 / 19!, which is 8e-18.
_DEGREE = 18
#: Powers of the matrix that are computed once. The polynomial is one in the last of them, whose coefficients are
#: polynomials in the others, so that it takes 8 products.
_POWERS = 4


@lowering("aten::linalg_matrix_exp")
def matrix_exp(g: Graph, self: Value) -> Value:
    """exp(A / 2**n) squared n times, where n is the least for which the 1-norm of A / 2**n is at most 1"""
    if self.dtype is torch.bfloat16:
        # onnxruntime has too few kernels of it: each step would be cast.
        return g.cast(_exponential(g, shaped(g.cast(self, torch.float32), self.shape)), self.dtype)
    return _exponential(g, self)


def _exponential(g: Graph, self: Value) -> Value:
    norms = g.reduce("Max", g.reduce("Sum", g.op("Abs", self), [self.rank - 2], True), [self.rank - 1], True)
    # A norm of at most 1 needs no halving. Others are infinite or NaN, if they have no logarithm below 1100.
    exponent = g.op("Ceil", g.op("Mul", g.op("Log", g.clip(norms, 1, None)), 1 / math.log(2)))
    is_usual = g.less(exponent, g.const(1100, self.dtype))
    halvings = g.where(is_usual, exponent, g.const(0, self.dtype))
    scaled = g.op("Mul", self, g.op("Pow", g.const(2, self.dtype), g.op("Neg", halvings)))
    counts = g.cast(halvings, torch.int64)

    def square(number: Value, carried: list[Value]) -> Sequence[Value]:
        (x,) = carried
        goes_on = g.less(number, counts)
        return [g.where(goes_on, matrix_product(g, x, x), x)]

    most = g.reduce("Max", counts, list(range(counts.rank)), False)
    (result,) = g.repeat(most, [_polynomial(g, scaled)], square)
    return result


def _polynomial(g: Graph, a: Value) -> Value:
    """The sum of a**k / k! up to the degree"""
    rows, columns = a.sizes[-2:]
    powers = [identity_matrix(g, rows, columns, a.dtype), a]
    while len(powers) <= _POWERS:
        powers.append(matrix_product(g, powers[len(powers) // 2], powers[(len(powers) + 1) // 2]))
    total: Value | None = None
    for first in reversed(range(0, _DEGREE + 1, _POWERS)):
        part = _combination(g, powers, range(first, min(first + _POWERS, _DEGREE + 1)))
        if total is not None:
            part = g.op("Add", part, matrix_product(g, total, powers[_POWERS]))
        total = part
    assert total is not None
    return total


def _combination(g: Graph, powers: Sequence[Value], degrees: range) -> Value:
    """The terms of these degrees, divided by the power of the first of them."""
    total: Value | None = None
    for degree, power in zip(degrees, powers, strict=False):
        term = g.op("Mul", power, 1 / math.factorial(degree))
        total = term if total is None else g.op("Add", total, term)
    assert total is not None
    return total
