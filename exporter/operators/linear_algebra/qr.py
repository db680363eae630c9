"""The QR decomposition by Householder's reflections, and products with Q."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import same_size, shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.linear_algebra.loops.matrix_loops import (
    column,
    element,
    identity_matrix,
    largest,
    lying,
    matrix_product,
    power_of_two_near,
    smallest_side,
    stacked_columns,
    standing,
    transposed,
    triangle,
)
from onnx_parity.exporter.registry.lowerings import lowering

__all__ = ["orthogonal", "reflections"]


def reflections(g: Graph, a: Value) -> tuple[Value, Value, Value]:
    """R above zeros, with the shape of `a`; the vectors v of the reflections, as columns; and their factors tau.

    Each iteration reflects what is left of a column onto the diagonal, by 1 - tau * v @ v.T, as LAPACK's larfg does.
    """
    scale = power_of_two_near(g, largest(g, a, 2))
    rows = g.iota(a.sizes[-2])
    zero, one = g.const(0, a.dtype), g.const(1, a.dtype)

    def step(k: Value, carried: list[Value]) -> Sequence[Value]:
        (rest,) = carried
        here, below = (f(rows, k) for f in (g.equal, g.greater))
        whole = column(g, rest, k)
        head = element(g, whole, k)
        tail = g.where(below, whole, zero)
        tail_norm = g.reduce("L2", tail, [whole.rank - 1], True)
        norm = g.op("Sqrt", g.op("Add", g.op("Mul", head, head), g.op("Mul", tail_norm, tail_norm)))
        reflected = g.where(g.less(head, zero), norm, g.op("Neg", norm))
        # A column that has zeros only below the diagonal stays as it is.
        stays = g.equal(tail_norm, zero)
        tau = g.where(stays, zero, g.op("Div", g.op("Sub", reflected, head), g.where(stays, one, reflected)))
        v = g.where(here, one, g.op("Div", tail, g.where(stays, one, g.op("Sub", head, reflected))))
        return [_reflected(g, rest, v, tau), v, tau]

    r, columns, taus = g.repeat(smallest_side(a), [g.op("Div", a, scale)], step)
    r = triangle(g, g.op("Mul", r, scale), 0, True)
    return r, stacked_columns(g, columns), g.squeeze(stacked_columns(g, taus), [a.rank - 2])


def _reflected(g: Graph, x: Value, v: Value, tau: Value) -> Value:
    """x - tau * v @ (v.T @ x)"""
    return g.op("Sub", x, g.op("Mul", standing(g, g.op("Mul", v, tau)), matrix_product(g, lying(g, v), x)))


def _product(g: Graph, vectors: Value, taus: Value, x: Value, *, adjoint: bool = False) -> Value:
    """Q @ x, or Q.T @ x, where Q is the product of the reflections."""
    count = taus.sizes[-1]
    last = g.op("Sub", g.scalar(count, torch.int64), 1)

    def step(number: Value, carried: list[Value]) -> Sequence[Value]:
        k = number if adjoint else g.op("Sub", last, number)
        return [_reflected(g, carried[0], column(g, vectors, k), element(g, taus, k))]

    (result,) = g.repeat(count, [x], step)
    return result


def orthogonal(g: Graph, vectors: Value, taus: Value, columns: Size) -> Value:
    """The first columns of Q."""
    start = identity_matrix(g, vectors.sizes[-2], columns, vectors.dtype)
    return _product(g, vectors, taus, g.expand(start, (*vectors.sizes[:-1], columns)))


def _vectors(g: Graph, packed: Value, count: Size) -> Value:
    """The vectors of reflections, of which the parts below the diagonal are given."""
    below = shaped(g.slice(packed, [packed.rank - 1], [0], [count]), (*packed.sizes[:-1], count))
    ones = identity_matrix(g, packed.sizes[-2], count, packed.dtype)
    return shaped(g.op("Add", triangle(g, below, -1, False), ones), below.sizes)


@lowering("aten::linalg_qr")
def linalg_qr(g: Graph, A: Value, mode: str = "reduced") -> tuple[Value, Value]:
    r, vectors, taus = reflections(g, A)
    if mode == "complete":
        return orthogonal(g, vectors, taus, A.sizes[-2]), r
    side = smallest_side(A)
    r = shaped(g.slice(r, [A.rank - 2], [0], [side]), (*A.sizes[:-2], side, A.sizes[-1]))
    return g.full([0], 0, A.dtype) if mode == "r" else orthogonal(g, vectors, taus, side), r


@lowering("aten::geqrf")
def geqrf(g: Graph, self: Value) -> tuple[Value, Value]:
    """R, with the vectors of the reflections below its diagonal, and their factors"""
    r, vectors, taus = reflections(g, self)
    below = triangle(g, vectors, -1, False)
    side = vectors.sizes[-1]
    if not same_size(side, self.sizes[-1]):
        below = g.pad(below, [0] * self.rank, [0] * (self.rank - 1) + [self.sizes[-1] - side])
    return g.op("Add", r, below), taus


@lowering("aten::linalg_householder_product")
def linalg_householder_product(g: Graph, input: Value, tau: Value) -> Value:
    return orthogonal(g, _vectors(g, input, tau.sizes[-1]), tau, input.sizes[-1])


@lowering("aten::ormqr")
def ormqr(g: Graph, self: Value, input2: Value, input3: Value, left: bool = True, transpose: bool = False) -> Value:
    """The product of Q, or its transpose, and a matrix; if not `left`, of the matrix and Q, which is (Q.T @ C.T).T"""
    vectors = _vectors(g, self, input2.sizes[-1])
    if left:
        return _product(g, vectors, input2, input3, adjoint=transpose)
    return transposed(g, _product(g, vectors, input2, transposed(g, input3), adjoint=not transpose))
