"""Jacobi's methods: the eigenvalues of symmetric matrices and singular values, by rotations of pairs of columns.

The columns meet in a round-robin tournament: in a round each column has one partner, so that all pairs of a round
rotate at once, and after as many rounds as there are columns each has met every other. A few such sweeps suffice,
because the angles shrink quadratically. The methods are as accurate as LAPACK's, and need no shifts or deflation, which
would differ from matrix to matrix of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.linear_algebra.loops.matrix_loops import (
    diagonal,
    identity_matrix,
    largest,
    lying,
    on_diagonal,
    power_of_two_near,
    standing,
    sum_over,
)

__all__ = ["MOST_SWEEPS", "Rotation", "Tournament", "diagonalized", "orthogonalized", "partners"]

#: More than any matrix needs: 6 to 10 are usual.
MOST_SWEEPS = 40


def diagonalized(g: Graph, a: Value, with_vectors: bool) -> tuple[Value, Value | None]:
    """The eigenvalues of symmetric matrices, in any order, and their eigenvectors, as columns.

    Rounds go on until all that is beside the diagonal is negligible.
    """
    size = a.sizes[-1]
    tournament = Tournament.of(g, size)
    scale = power_of_two_near(g, largest(g, a, 2))
    scaled = g.op("Div", a, scale)
    is_diagonal = on_diagonal(g, size, size)
    zero = g.const(0, a.dtype)

    def step(number: Value, carried: list[Value]) -> Sequence[Value]:
        x, *vectors = carried
        partner, goes_first = tournament.round(g, number)
        met = partners(g, x, partner, x.rank - 1)
        d, off = diagonal(g, x), diagonal(g, met)
        # A column without a partner meets itself.
        is_pair = g.not_equal(partner, tournament.columns)
        off = g.where(is_pair, off, zero)
        off = _of_first(g, off, partner, goes_first)
        rotation = Rotation.of(g, d, partners(g, d, partner, d.rank - 1), off, goes_first)
        turned = rotation.of_columns(g, x, met)
        turned = rotation.of_rows(g, turned, partners(g, turned, partner, x.rank - 2))
        # The element that the rotation makes zero is set to zero, or its rounding error would remain.
        gone = g.op("And", g.equal(standing(g, partner), lying(g, tournament.columns)), g.op("Not", is_diagonal))
        turned = g.where(gone, zero, turned)
        beside = largest(g, g.where(is_diagonal, zero, turned), x.rank)
        limit = g.const(torch.finfo(a.dtype).eps ** 2, a.dtype)
        goes_on = g.reshape(g.greater(beside, limit), [])
        return [goes_on, turned, *(rotation.of_columns(g, v, partners(g, v, partner, v.rank - 1)) for v in vectors)]

    initial = [scaled]
    if with_vectors:
        initial.append(g.expand(identity_matrix(g, size, size, a.dtype), a.sizes))
    turned, *vectors = g.repeat_while(tournament.rounds * MOST_SWEEPS, initial, step)
    values = g.op("Mul", diagonal(g, turned), g.squeeze(scale, [a.rank - 1]))
    return values, vectors[0] if vectors else None


def orthogonalized(g: Graph, a: Value, with_vectors: bool) -> tuple[Value, Value, Value | None]:
    """a @ v / scale with orthogonal columns, in any order; the scale; and the orthogonal v.

    The lengths of the columns, times the scale, are the singular values; squares of what is scaled do not overflow.

    This is Hestenes' one-sided method. Rounds go on until in a whole sweep no pair is left that is not orthogonal.
    """
    size = a.sizes[-1]
    tournament = Tournament.of(g, size)
    scale = power_of_two_near(g, largest(g, a, 2))
    epsilon = torch.finfo(a.dtype).eps

    def step(number: Value, carried: list[Value]) -> Sequence[Value]:
        quiet, x, *vectors = carried
        partner, goes_first = tournament.round(g, number)
        met = partners(g, x, partner, x.rank - 1)
        lengths = sum_over(g, g.op("Mul", x, x), -2)
        others = partners(g, lengths, partner, lengths.rank - 1)
        is_pair = g.not_equal(partner, tournament.columns)
        product = g.where(is_pair, sum_over(g, g.op("Mul", x, met), -2), g.const(0, a.dtype))
        product = _of_first(g, product, partner, goes_first)
        rotation = Rotation.of(g, lengths, others, product, goes_first)
        # Below this a product is due to rounding: the error of each column is that of the largest.
        total = g.op("Mul", sum_over(g, lengths, -1, keepdim=True), epsilon)
        limit = g.op("Add", g.op("Sqrt", g.op("Mul", lengths, others)), total)
        goes_on = g.greater(g.op("Abs", product), g.op("Mul", limit, 8 * epsilon))
        turns = g.reduce("Max", g.cast(goes_on, torch.int64), list(range(lengths.rank)), False)
        quiet = g.op("Mul", g.op("Add", quiet, 1), g.op("Sub", g.const(1), turns))
        turned = [rotation.of_columns(g, v, partners(g, v, partner, v.rank - 1)) for v in vectors]
        return [g.less(quiet, tournament.count), quiet, rotation.of_columns(g, x, met), *turned]

    initial = [g.const(0), g.op("Div", a, scale)]
    if with_vectors:
        square = (*a.sizes[:-2], size, size)
        initial.append(g.expand(identity_matrix(g, size, size, a.dtype), square))
    _, turned, *vectors = g.repeat_while(tournament.rounds * MOST_SWEEPS, initial, step)
    return turned, scale, vectors[0] if vectors else None


class Tournament(msgspec.Struct, frozen=True):
    """Which columns meet in which round: in round r, column i meets column r - i, modulo an odd number of rounds."""

    rounds: Size
    count: Value
    columns: Value

    @classmethod
    def of(cls, g: Graph, size: Size) -> Tournament:
        rounds = size + 1 - size % 2
        return cls(rounds, g.scalar(rounds, torch.int64), g.iota(size))

    def round(self, g: Graph, number: Value) -> tuple[Value, Value]:
        """The partner of each column, which is the column itself if it has none; and whether the column goes first."""
        place = g.op("Add", g.op("Sub", g.remainder(number, self.count), self.columns), self.count)
        met = g.remainder(place, self.count)
        exists = g.less(met, g.scalar(self.columns.sizes[0], torch.int64))
        partner = shaped(g.where(shaped(exists, self.columns.shape), met, self.columns), self.columns.shape)
        return partner, g.less(self.columns, partner)


def partners(g: Graph, x: Value, partner: Value, axis: int) -> Value:
    """In the place of each slice of `x` along an axis, its partner."""
    return shaped(g.op("Gather", x, partner, axis_i=axis), x.shape)


def _of_first(g: Graph, product: Value, partner: Value, goes_first: Value) -> Value:
    """For both columns of a pair the product that the first one has.

    They may differ by rounding errors. If both lengths are equal, the angle is half a right one for any product but 0,
    and the pair would rotate by two different angles.
    """
    others = partners(g, product, partner, product.rank - 1)
    return g.where(goes_first, product, others)


class Rotation(msgspec.Struct, frozen=True):
    """The sine of the angle that each column and its partner rotate by, and the tangent of half of it.

    Those of the partner are the opposite.
    """

    sine: Value
    half_tangent: Value

    @classmethod
    def of(cls, g: Graph, one: Value, other: Value, product: Value, goes_first: Value) -> Rotation:
        """The rotation that makes [[one, product], [product, other]] diagonal, by the smaller of the two angles.

        Its tangent is 2p / (|d| + sqrt(d² + 4p²)), with the sign of d = other - one.
        """
        zero, unit = g.const(0, one.dtype), g.const(1, one.dtype)
        difference = g.op("Sub", other, one)
        twice = g.op("Add", product, product)
        root = g.op("Sqrt", g.op("Add", g.op("Mul", difference, difference), g.op("Mul", twice, twice)))
        divisor = g.op("Add", g.op("Abs", difference), root)
        is_positive = g.op("Or", g.greater(difference, zero), g.op("And", g.equal(difference, zero), goes_first))
        signed = g.where(is_positive, twice, g.op("Neg", twice))
        kept = g.where(g.greater(divisor, zero), divisor, unit)
        tangent = g.op("Div", signed, kept)
        cosine = g.op("Reciprocal", g.op("Sqrt", g.op("Add", g.op("Mul", tangent, tangent), 1)))
        sine = g.op("Mul", cosine, tangent)
        return cls(sine, g.op("Div", sine, g.op("Add", cosine, 1)))

    def of_columns(self, g: Graph, x: Value, met: Value) -> Value:
        return self._of(g, x, met, lying)

    def of_rows(self, g: Graph, x: Value, met: Value) -> Value:
        return self._of(g, x, met, standing)

    def _of(self, g: Graph, x: Value, met: Value, along: Callable[[Graph, Value], Value]) -> Value:
        """cos * x - sin * met, as x - sin * (met + tan(angle / 2) * x), whose rounding errors shrink with the angle"""
        mixed = g.op("Add", met, g.op("Mul", x, along(g, self.half_tangent)))
        return g.op("Sub", x, g.op("Mul", mixed, along(g, self.sine)))
