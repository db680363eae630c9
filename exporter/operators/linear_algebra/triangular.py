"""Triangular systems of equations, and Cholesky's factorization, which is solved and inverted by them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.linear_algebra.loops.matrix_loops import (
    broadcast_batch,
    column,
    diagonal,
    element,
    first_flagged,
    identity_matrix,
    lying,
    row,
    stacked_columns,
    stacked_rows,
    standing,
    transposed,
    triangle,
)
from onnx_parity.exporter.registry.lowerings import lowering

__all__ = ["solve_triangular"]


def solve_triangular(g: Graph, a: Value, b: Value, *, upper: bool, unit: bool = False) -> Value:
    """The solution of a @ x = b, where one triangle of `a` counts, and with `unit` its diagonal as ones.

    Each iteration finds one row of x, from the first, or if `upper` from the last, and subtracts its products from b.
    """
    size = a.sizes[-1]
    others = triangle(g, a, 1 if upper else -1, upper)
    pivots = None if unit else diagonal(g, a)
    last = g.op("Sub", g.scalar(size, torch.int64), 1)

    def step(number: Value, carried: list[Value]) -> Sequence[Value]:
        (rest,) = carried
        k = g.op("Sub", last, number) if upper else number
        found = row(g, rest, k)
        if pivots is not None:
            found = g.op("Div", found, element(g, pivots, k))
        return [g.op("Sub", rest, g.op("Mul", standing(g, column(g, others, k)), lying(g, found))), found]

    _, rows = g.repeat(size, [broadcast_batch(g, a, b)], step)
    if upper:
        rows = shaped(g.op("Gather", rows, g.op("Sub", last, g.iota(size)), axis_i=0), rows.shape)
    return stacked_rows(g, rows)


@lowering("aten::linalg_solve_triangular")
def linalg_solve_triangular(
    g: Graph, self: Value, B: Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    """A @ X = B; if not `left`, X @ A = B, which is A.T @ X.T = B.T. The right side is cast to the dtype of A."""
    B = g.cast(B, self.dtype)
    if left:
        return solve_triangular(g, self, B, upper=upper, unit=unitriangular)
    turned = solve_triangular(g, transposed(g, self), transposed(g, B), upper=not upper, unit=unitriangular)
    return transposed(g, turned)


@lowering("aten::triangular_solve")
def triangular_solve(
    g: Graph, self: Value, A: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Value, Value]:
    """The solution, and A"""
    a = transposed(g, A) if transpose else A
    solution = solve_triangular(g, a, self, upper=upper is not transpose, unit=unitriangular)
    return solution, g.expand(A, g.output(1).shape)


# --- Cholesky ---------------------------------------------------------------------------------------------------------


def _factor(g: Graph, a: Value) -> tuple[Value, Value]:
    """L of L @ L.T, from the lower triangle of `a`, and the squares of its diagonal, of which none may be negative.

    Each iteration finds one column of L, and subtracts its products from what is left of `a`.
    """
    size = a.sizes[-1]
    rows = g.iota(size)

    def step(k: Value, carried: list[Value]) -> Sequence[Value]:
        (rest,) = carried
        whole = column(g, rest, k)
        square = element(g, whole, k)
        below = g.where(g.less(rows, k), g.const(0, a.dtype), whole)
        found = g.op("Div", below, g.op("Sqrt", square))
        return [g.op("Sub", rest, g.op("Mul", standing(g, found), lying(g, found))), found, square]

    _, columns, squares = g.repeat(size, [a], step)
    return stacked_columns(g, columns), g.squeeze(stacked_columns(g, squares), [a.rank - 2])


def _lower(g: Graph, factor: Value, upper: bool) -> Value:
    """The lower one of Cholesky's factors."""
    return transposed(g, factor) if upper else factor


def _solved(g: Graph, lower: Value, b: Value) -> Value:
    """The solution of L @ L.T @ x = b"""
    return solve_triangular(g, transposed(g, lower), solve_triangular(g, lower, b, upper=False), upper=True)


@lowering("aten::linalg_cholesky_ex", "aten::cholesky")
def cholesky(g: Graph, self: Value, upper: bool = False, check_errors: bool = False) -> list[Value]:
    """L, or its transpose; and the order of the first leading minor that is not positive, or 0"""
    factor, squares = _factor(g, _lower(g, self, upper))
    results = [_lower(g, factor, upper)]
    if len(g.node.outputs) > 1 and g.is_used(1):
        is_positive = g.greater(squares, g.const(0, squares.dtype))
        results.append(first_flagged(g, g.op("Not", is_positive)))
    return results


@lowering("aten::cholesky_solve")
def cholesky_solve(g: Graph, self: Value, input2: Value, upper: bool = False) -> Value:
    return _solved(g, _lower(g, input2, upper), self)


@lowering("aten::cholesky_inverse")
def cholesky_inverse(g: Graph, self: Value, upper: bool = False) -> Value:
    rows, columns = self.sizes[-2:]
    return _solved(g, _lower(g, self, upper), identity_matrix(g, rows, columns, self.dtype))
