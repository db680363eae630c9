"""Decompositions of complex matrices: LU, QR, eigenvectors of Hermitian matrices, and singular vectors.

A complex tensor is one real tensor here, as in `complex_loops`. The steps are those of the real matrices, in `lu`, `qr`
and `jacobi`, with products of complex numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.linear_algebra.loops.complex_loops import (
    Reflection,
    common_scale,
    complex_identity,
    conjugate,
    inverse,
    magnitude,
    number_of,
    real_part,
    times,
)
from onnx_parity.exporter.operators.linear_algebra.loops.jacobi import MOST_SWEEPS, Rotation, Tournament, partners
from onnx_parity.exporter.operators.linear_algebra.loops.matrix_loops import (
    column,
    diagonal,
    element,
    largest,
    lying,
    on_diagonal,
    row,
    smallest_side,
    stacked_columns,
    standing,
    sum_over,
    take_columns,
    triangle,
)
from onnx_parity.exporter.operators.linear_algebra.lu import pivot_row, swapped_rows
from onnx_parity.exporter.registry.lowerings import lowering

# --- LU ---------------------------------------------------------------------------------------------------------------


@lowering("onnx_parity::complex_lu")
def complex_lu(g: Graph, a: Value) -> tuple[Value, Value]:
    """L and U in one matrix, and the pivots, from 1. As in LAPACK, the pivot has the largest |real| + |imaginary|."""
    rows, columns = g.iota(a.sizes[-2]), g.iota(a.sizes[-1])
    zero = g.const(0, a.dtype)

    def step(k: Value, carried: list[Value]) -> Sequence[Value]:
        (matrix,) = carried
        whole = column(g, matrix, k)
        size = g.reduce("Sum", g.op("Abs", whole), [0], True)
        chosen = pivot_row(g, g.expand(size, a.sizes[:-1]), rows, k, a.sizes[:-2])
        matrix = swapped_rows(g, matrix, k, chosen, rows)
        upper = row(g, matrix, k)
        head = element(g, upper, k)
        is_zero = g.equal(magnitude(g, head), zero)
        divisor = g.where(is_zero, number_of(g, 1.0, head.rank, a.dtype), head)
        below = standing(g, g.greater(rows, k))
        divided = standing(g, times(g, column(g, matrix, k), inverse(g, divisor)))
        multiples = g.where(below, divided, zero)
        rest = g.where(g.greater(columns, k), upper, zero)
        eliminated = g.op("Sub", matrix, times(g, multiples, lying(g, rest)))
        replaced = g.op("And", below, lying(g, g.equal(columns, k)))
        number = g.op("Gather", g.squeeze(chosen, [chosen.rank - 1]), g.const(0), axis_i=0)
        return [shaped(g.where(replaced, multiples, eliminated), a.shape), shaped(number, a.sizes[1:-2])]

    matrix, chosen = g.repeat(smallest_side(a), [a], step)
    pivots = g.op("Add", stacked_columns(g, chosen), 1)
    return matrix, g.cast(pivots, torch.int32)


# --- QR ---------------------------------------------------------------------------------------------------------------


@lowering("onnx_parity::complex_reflections")
def complex_reflections(g: Graph, a: Value) -> tuple[Value, Value, Value]:
    """R above zeros, with a real diagonal; the vectors v of the reflections 1 - tau * v @ v.H; and their factors."""
    scale = common_scale(g, a)
    rows = g.iota(a.sizes[-2])

    def step(k: Value, carried: list[Value]) -> Sequence[Value]:
        (rest,) = carried
        here, below = (f(rows, k) for f in (g.equal, g.greater))
        reflection = Reflection.of(g, column(g, rest, k), here, below)
        return [reflection.applied(g, rest, adjoint=True), reflection.v, reflection.tau]

    r, columns, taus = g.repeat(smallest_side(a), [g.op("Div", a, scale)], step)
    r = triangle(g, g.op("Mul", r, scale), 0, True)
    is_imaginary = g.const(torch.tensor([False, True]).reshape(2, *[1] * (a.rank - 1)))
    is_real = g.op("And", on_diagonal(g, *a.sizes[-2:]), is_imaginary)
    # The reflections leave rounding errors there.
    r = g.where(is_real, g.const(0, a.dtype), r)
    return r, stacked_columns(g, columns), g.squeeze(stacked_columns(g, taus), [a.rank - 2])


@lowering("onnx_parity::complex_reflected")
def complex_reflected(g: Graph, vectors: Value, taus: Value, x: Value, adjoint: bool = False) -> Value:
    """Q @ x, or Q.H @ x, where Q is the product of the reflections."""
    count = taus.sizes[-1]
    last = g.op("Sub", g.scalar(count, torch.int64), 1)

    def step(number: Value, carried: list[Value]) -> Sequence[Value]:
        k = number if adjoint else g.op("Sub", last, number)
        reflection = Reflection(column(g, vectors, k), element(g, taus, k))
        return [reflection.applied(g, carried[0], adjoint=adjoint)]

    (result,) = g.repeat(count, [x], step)
    return result


# --- Jacobi's methods -------------------------------------------------------------------------------------------------


def _turns(g: Graph, product: Value) -> Value:
    """Factors of the partners of columns that make the products of the columns with them real."""
    size = magnitude(g, product)
    is_zero = g.equal(size, g.const(0, product.dtype))
    divisor = g.where(is_zero, g.const(1, product.dtype), size)
    unit = g.where(is_zero, number_of(g, 1.0, product.rank, product.dtype), g.op("Div", product, divisor))
    return conjugate(g, unit)


def _met(g: Graph, x: Value, partner: Value, turns: Value) -> Value:
    """In the place of each column its partner, turned."""
    return times(g, partners(g, x, partner, x.rank - 1), lying(g, turns))


def _of_first(g: Graph, product: Value, partner: Value, goes_first: Value) -> Value:
    """For both columns of a pair the product of the first one, which is the conjugate of that of the other."""
    other = conjugate(g, partners(g, product, partner, product.rank - 1))
    return g.where(goes_first, product, other)


@lowering("onnx_parity::complex_eigh")
def complex_eigh(g: Graph, a: Value) -> tuple[Value, Value]:
    """The eigenvalues of Hermitian matrices in ascending order, and their eigenvectors, as columns."""
    size = a.sizes[-1]
    tournament = Tournament.of(g, size)
    scale = common_scale(g, a)
    is_diagonal = on_diagonal(g, size, size)
    zero = g.const(0, a.dtype)

    def step(number: Value, carried: list[Value]) -> Sequence[Value]:
        x, vectors = carried
        partner, goes_first = tournament.round(g, number)
        is_pair = g.not_equal(partner, tournament.columns)
        own = diagonal(g, real_part(g, x))
        beside = diagonal(g, partners(g, x, partner, x.rank - 1))
        beside = _of_first(g, g.where(is_pair, beside, zero), partner, goes_first)
        rotation = Rotation.of(g, own, partners(g, own, partner, own.rank - 1), magnitude(g, beside), goes_first)
        turns = _turns(g, beside)
        turned = rotation.of_columns(g, x, _met(g, x, partner, turns))
        met = times(g, partners(g, turned, partner, x.rank - 2), standing(g, conjugate(g, turns)))
        turned = rotation.of_rows(g, turned, met)
        # What the rotation makes zero is set to zero, or its rounding error would remain.
        gone = g.op("And", g.equal(standing(g, partner), lying(g, tournament.columns)), g.op("Not", is_diagonal))
        turned = g.where(gone, zero, turned)
        left = largest(g, g.where(is_diagonal, zero, turned), x.rank)
        goes_on = g.reshape(g.greater(left, g.const(torch.finfo(a.dtype).eps ** 2, a.dtype)), [])
        return [goes_on, turned, rotation.of_columns(g, vectors, _met(g, vectors, partner, turns))]

    scaled = g.op("Div", a, scale)
    turned, vectors = g.repeat_while(tournament.rounds * MOST_SWEEPS, [scaled, complex_identity(g, a, -1, -1)], step)
    values = g.op("Mul", diagonal(g, real_part(g, turned)), g.squeeze(scale, [a.rank - 1]))
    values, order = g.top_k(values, size, a.rank - 2, largest=False)
    return g.squeeze(values, [0]), take_columns(g, vectors, g.expand(order, a.sizes[:-1]))


@lowering("onnx_parity::complex_svd")
def complex_svd(g: Graph, a: Value) -> tuple[Value, Value, Value]:
    """The singular values in descending order, with as many as there are columns; A @ V; and V."""
    size = a.sizes[-1]
    tournament = Tournament.of(g, size)
    scale = common_scale(g, a)
    epsilon = torch.finfo(a.dtype).eps
    zero = g.const(0, a.dtype)

    def squares(x: Value) -> Value:
        return g.reduce("Sum", g.op("Mul", x, x), [0, x.rank - 2], True)

    def step(number: Value, carried: list[Value]) -> Sequence[Value]:
        quiet, x, vectors = carried
        partner, goes_first = tournament.round(g, number)
        lengths = g.squeeze(squares(x), [x.rank - 2])
        others = partners(g, lengths, partner, lengths.rank - 1)
        is_pair = g.not_equal(partner, tournament.columns)
        product = sum_over(g, times(g, conjugate(g, x), partners(g, x, partner, x.rank - 1)), -2)
        product = g.where(is_pair, product, zero)
        product = _of_first(g, product, partner, goes_first)
        rotation = Rotation.of(g, lengths, others, magnitude(g, product), goes_first)
        factors = _turns(g, product)
        # Below this a product is due to rounding: the error of each column is that of the largest.
        total = g.op("Mul", sum_over(g, lengths, -1, keepdim=True), epsilon)
        limit = g.op("Add", g.op("Sqrt", g.op("Mul", lengths, others)), total)
        goes_on = g.greater(magnitude(g, product), g.op("Mul", limit, 8 * epsilon))
        turns = g.reduce("Max", g.cast(goes_on, torch.int64), list(range(lengths.rank)), False)
        quiet = g.op("Mul", g.op("Add", quiet, 1), g.op("Sub", g.const(1), turns))
        turned = [rotation.of_columns(g, each, _met(g, each, partner, factors)) for each in (x, vectors)]
        return [g.less(quiet, tournament.count), quiet, *turned]

    initial = [g.const(0), g.op("Div", a, scale), complex_identity(g, a, -1, -1)]
    _, turned, vectors = g.repeat_while(tournament.rounds * MOST_SWEEPS, initial, step)
    products = g.op("Mul", turned, scale)
    lengths = g.op("Mul", g.op("Sqrt", squares(turned)), scale)
    values, order = g.top_k(g.squeeze(lengths, [a.rank - 2]), size, a.rank - 2, largest=True)
    places = g.expand(order, (*a.sizes[:-2], size))
    return g.squeeze(values, [0]), take_columns(g, products, places), take_columns(g, vectors, places)
