"""The real Schur decomposition, by Francis's QR algorithm: shifts, and bulges that are chased down the diagonal.

It does what LAPACK's hseqr does for small matrices, so that eigenvalues are found in the same order, as a rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnx_parity.exporter.lowering.aten.matrix_loops import (
    below_diagonal,
    beside_diagonal,
    column,
    identity_matrix,
    largest,
    lying,
    matrix_product,
    power_of_two_near,
    standing,
    sum_over,
    transposed,
    triangle,
)
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.registry import lowering
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["EXCEPTIONAL", "EXCEPTIONAL_AFTER", "MOST_SWEEPS", "before_each", "is_negligible", "nan_unless_found"]

#: For each row: 3 are usual.
MOST_SWEEPS = 30
#: LAPACK's shifts for matrices that do not converge by their own, after so many sweeps.
EXCEPTIONAL_AFTER, EXCEPTIONAL, _EXCEPTIONAL_BESIDE = 10, 0.75, -0.4375


@lowering("onnx_parity::schur")
def schur(g: Graph, a: Value) -> tuple[Value, Value]:
    """T and Z of A = Z @ T @ Z.T, where T has blocks of 1 by 1 and 2 by 2 on its diagonal, and zeros below."""
    size = a.sizes[-1]
    scale = power_of_two_near(g, largest(g, a, 2))
    start = g.expand(identity_matrix(g, size, size, a.dtype), a.sizes)
    upper, vectors = _hessenberg(g, shaped(g.op("Div", a, scale), a.shape), start)
    last = g.op("Sub", g.scalar(size, torch.int64), 1)
    per_matrix = (*a.sizes[:-2], 1)

    def step(number: Value, carried: list[Value]) -> Sequence[Value]:
        h, z, bottom, sweeps = carried
        window = _Window.of(g, h, bottom)
        h, z = window.swept(g, z, sweeps)
        bottom = shaped(g.where(window.is_done, g.op("Sub", window.top, 1), bottom), per_matrix)
        sweeps = shaped(g.where(window.is_done, g.const(1), g.op("Add", sweeps, 1)), per_matrix)
        most = g.reduce("Max", bottom, list(range(bottom.rank)), False)
        return [g.greater(most, g.const(0)), h, z, bottom, sweeps]

    initial = [upper, vectors, g.expand(last, per_matrix), g.full(per_matrix, 1, torch.int64)]
    t, z, bottom, _ = g.repeat_while(size * MOST_SWEEPS, initial, step)
    return shaped(g.op("Mul", nan_unless_found(g, t, bottom), scale), a.shape), z


def _hessenberg(g: Graph, a: Value, vectors: Value) -> tuple[Value, Value]:
    """Zeros below the first diagonal under the main one: each column is reflected onto it."""
    rows = g.iota(a.sizes[-1])

    def step(k: Value, carried: list[Value]) -> Sequence[Value]:
        h, z = carried
        head = g.op("Add", k, 1)
        below = shaped(g.greater(rows, k), rows.shape)
        reflection = _Reflection.of(g, column(g, h, k), shaped(g.equal(rows, head), rows.shape), below)
        return reflection.applied(g, h, z)

    h, z = g.repeat(a.sizes[-1], [a, vectors], step)
    return triangle(g, h, -1, True), z


@dataclass(frozen=True, slots=True)
class _Reflection:
    """1 - tau * v @ v.T"""

    v: Value
    tau: Value

    @classmethod
    def of(cls, g: Graph, source: Value, is_head: Value, within: Value) -> _Reflection:
        """The one that leaves, of the elements of a vector in a window, only the head, as LAPACK's larfg does."""
        zero, one = g.const(0, source.dtype), g.const(1, source.dtype)
        each = (*source.sizes[:-1], 1)
        head = sum_over(g, shaped(g.where(is_head, source, zero), source.shape), -1, keepdim=True)
        is_tail = g.op("And", within, g.op("Not", is_head))
        tail = shaped(g.where(is_tail, source, zero), source.shape)
        tail_norm = g.reduce("L2", tail, [source.rank - 1], True)
        norm = g.op("Sqrt", g.op("Add", g.op("Mul", head, head), g.op("Mul", tail_norm, tail_norm)))
        reflected = shaped(g.where(shaped(g.less(head, zero), each), norm, g.op("Neg", norm)), each)
        stays = shaped(g.equal(tail_norm, zero), each)
        tau = g.where(stays, zero, g.op("Div", g.op("Sub", reflected, head), g.where(stays, one, reflected)))
        v = g.where(is_head, one, g.op("Div", tail, g.where(stays, one, g.op("Sub", head, reflected))))
        return cls(shaped(v, source.shape), shaped(tau, each))

    def applied(self, g: Graph, h: Value, z: Value) -> list[Value]:
        """P @ h @ P and z @ P"""
        return [self._from_right(g, self._from_left(g, h)), self._from_right(g, z)]

    def _from_left(self, g: Graph, x: Value) -> Value:
        products = matrix_product(g, lying(g, self.v), x)
        return shaped(g.op("Sub", x, g.op("Mul", standing(g, g.op("Mul", self.v, self.tau)), products)), x.shape)

    def _from_right(self, g: Graph, x: Value) -> Value:
        return transposed(g, self._from_left(g, transposed(g, x)))


@dataclass(frozen=True, slots=True)
class _Window:
    """The part of each matrix, from row `top` to row `bottom`, that is worked on; all below has been found."""

    h: Value
    rows: Value
    top: Value
    bottom: Value
    #: Whether it has one or two rows, which need no sweep.
    is_done: Value
    #: Of each row of h: the element on the diagonal, the one left of it, and the one above it.
    own: Value
    left: Value
    above: Value

    @classmethod
    def of(cls, g: Graph, h: Value, bottom: Value) -> _Window:
        size = h.sizes[-1]
        rows, zero = g.iota(size), g.const(0, h.dtype)
        is_left = below_diagonal(g, size)
        own, left, above = beside_diagonal(g, h, is_left)
        is_cut = g.op(
            "And", _is_negligible(g, own, left, above), g.op("Not", shaped(g.greater(rows, bottom), own.shape))
        )
        places = shaped(g.where(is_cut, rows, g.const(0)), own.shape)
        top = g.reduce("Max", places, [own.rank - 1], True)
        is_top = shaped(g.equal(rows, top), own.shape)
        h = shaped(g.where(g.op("And", standing(g, is_top), is_left), zero, h), h.shape)
        left = shaped(g.where(is_top, zero, left), own.shape)
        is_done = shaped(g.greater_or_equal(g.op("Add", top, 1), bottom), bottom.shape)
        return cls(h, rows, top, bottom, is_done, own, left, above)

    def swept(self, g: Graph, z: Value, sweeps: Value) -> tuple[Value, Value]:
        """h after one sweep with two shifts, and z times its reflections; both as they are where `is_done`."""
        rows, zero = self.rows, g.const(0, z.dtype)
        first, start = self._first_column(g, *self._shifts(g, sweeps))

        def step(k: Value, carried: list[Value]) -> Sequence[Value]:
            h, vectors = carried
            before = column(g, h, g.extreme("Max", g.op("Sub", k, 1), g.const(0)))
            source = shaped(g.where(g.equal(first, k), start, before), start.shape)
            end = g.extreme("Min", g.op("Add", k, 2), self.bottom)
            is_within = g.op("Not", g.op("Or", g.less(rows, k), g.greater(rows, end)))
            is_head = shaped(g.equal(rows, k), rows.shape)
            found = _Reflection.of(g, source, is_head, shaped(is_within, source.shape))
            # Below the window a reflection has no tail, and so it changes nothing.
            rests = g.op("Or", self.is_done, g.greater(first, k))
            tau = shaped(g.where(rests, zero, found.tau), self.top.shape)
            return _Reflection(found.v, tau).applied(g, h, vectors)

        h, z = g.repeat(rows.sizes[0], [self.h, z], step)
        return triangle(g, h, -1, True), z

    def _at(self, g: Graph, vector: Value, place: Value) -> Value:
        """The element of each vector at a place."""
        is_there = shaped(g.equal(self.rows, place), vector.shape)
        return sum_over(g, shaped(g.where(is_there, vector, g.const(0, vector.dtype)), vector.shape), -1, keepdim=True)

    def _shifts(self, g: Graph, sweeps: Value) -> tuple[Value, Value]:
        """The real part of both shifts, and the square of the imaginary one.

        They are the eigenvalues of the last block, or twice the nearer one if these are real.
        """
        last, zero = self.bottom, g.const(0, self.own.dtype)
        before, after = g.op("Sub", last, 1), g.op("Add", self.top, 1)
        a, d = self._at(g, self.own, before), self._at(g, self.own, last)
        b, c = self._at(g, self.above, last), self._at(g, self.left, last)
        rounds = g.remainder(sweeps, g.const(2 * EXCEPTIONAL_AFTER))
        at_bottom, at_top = (g.equal(rounds, g.const(number)) for number in (0, EXCEPTIONAL_AFTER))
        is_exceptional = g.op("Or", at_bottom, at_top)
        sums = [
            g.op("Add", *(g.op("Abs", self._at(g, self.left, place)) for place in places))
            for places in ((last, before), (after, g.op("Add", after, 1)))
        ]
        near = g.where(at_bottom, sums[0], sums[1])
        beside = g.where(at_bottom, d, self._at(g, self.own, self.top))
        shifted = g.op("Add", g.op("Mul", near, EXCEPTIONAL), beside)
        a, d = (g.where(is_exceptional, shifted, each) for each in (a, d))
        b = g.where(is_exceptional, g.op("Mul", near, _EXCEPTIONAL_BESIDE), b)
        c = g.where(is_exceptional, near, c)

        mean = g.op("Mul", g.op("Add", a, d), 0.5)
        half = g.op("Sub", a, mean)
        square = shaped(g.op("Add", g.op("Mul", half, half), g.op("Mul", b, c)), last.shape)
        root = g.op("Sqrt", g.op("Abs", square))
        plus, minus = g.op("Add", mean, root), g.op("Sub", mean, root)
        far_plus, far_minus = (g.op("Abs", g.op("Sub", each, d)) for each in (plus, minus))
        nearer = g.where(shaped(g.greater(far_plus, far_minus), last.shape), minus, plus)
        is_complex = shaped(g.less(square, zero), last.shape)
        shift = shaped(g.where(is_complex, mean, nearer), last.shape)
        return shift, shaped(g.where(is_complex, g.op("Neg", square), zero), last.shape)

    def _first_column(self, g: Graph, shift: Value, imaginary: Value) -> tuple[Value, Value]:
        """The row where a sweep begins, and of there the first column of (h - shift) @ (h - shift) + imaginary.

        It begins at the last of two elements left of the diagonal, one after the other, whose product is negligible,
        and else at the top.
        """
        rows, zero, each = self.rows, g.const(0, self.own.dtype), self.own.shape
        after, below, beside = (after_each(g, vector) for vector in (self.own, self.left, self.above))
        left = g.op("Sub", self.own, shift)
        head = g.op("Add", g.op("Add", g.op("Mul", left, left), imaginary), g.op("Mul", beside, below))
        next_one = g.op("Mul", below, g.op("Add", left, g.op("Sub", after, shift)))
        last = g.op("Mul", below, after_each(g, below))
        column_here = [shaped(element, each) for element in (head, next_one, last)]

        sizes = [shaped(g.op("Abs", x), each) for x in (*column_here, before_each(g, self.own), self.own, after)]
        total = g.op("Add", g.op("Add", sizes[3], sizes[4]), sizes[5])
        limit = g.op("Mul", g.op("Mul", sizes[0], total), torch.finfo(shift.dtype).eps)
        product = g.op("Mul", g.op("Abs", self.left), g.op("Add", sizes[1], sizes[2]))
        is_inside = g.op("And", g.greater(rows, self.top), g.less(rows, g.op("Sub", self.bottom, 1)))
        begins = g.op("And", g.op("Not", g.greater(product, limit)), is_inside)
        places = shaped(g.where(begins, rows, g.const(0)), each)
        found = g.extreme("Max", g.reduce("Max", places, [len(places.sizes) - 1], True), self.top)
        first = shaped(found, self.top.shape)

        start: Value | None = None
        for number, vector in enumerate(column_here):
            is_there = g.equal(rows, g.op("Add", first, number) if number else first)
            start = g.where(is_there, self._at(g, vector, first), zero if start is None else start)
        assert start is not None
        return first, shaped(start, each)


def _is_negligible(g: Graph, own: Value, left: Value, above: Value) -> Value:
    """Whether the element left of the diagonal is; of the first row it is."""
    before = before_each(g, own)
    sizes = [shaped(g.op("Abs", each), own.shape) for each in (left, above, own, before, g.op("Sub", before, own))]
    return is_negligible(g, *sizes)


def before_each(g: Graph, own: Value) -> Value:
    """The elements of a diagonal before those of each row; the first one for the first."""
    places = g.extreme("Max", g.op("Sub", g.iota(own.sizes[-1]), 1), g.const(0))
    return shaped(g.op("Gather", own, places, axis_i=own.rank - 1), own.shape)


def after_each(g: Graph, own: Value) -> Value:
    """The elements of a diagonal after those of each row; the last one for the last."""
    size = own.sizes[-1]
    places = g.extreme("Min", g.op("Add", g.iota(size), 1), g.op("Sub", g.scalar(size, torch.int64), 1))
    return shaped(g.op("Gather", own, places, axis_i=own.rank - 1), own.shape)


def is_negligible(g: Graph, left: Value, above: Value, own: Value, before: Value, distance: Value) -> Value:
    """Whether the element left of the diagonal is, by the test of Ahues and Tisseur; of the first row it is.

    Given are magnitudes: of that element, of the one above the diagonal, of both on it, and of their difference.
    """
    one = g.const(1, own.dtype)
    zero = g.const(0, own.dtype)
    info = torch.finfo(own.dtype)
    total = g.op("Add", own, before)
    total = g.where(g.equal(total, zero), one, total)
    is_tiny = g.op("Not", g.greater(left, g.const(info.tiny / info.eps, own.dtype)))
    is_small = g.op("Not", g.greater(left, g.op("Mul", total, info.eps)))
    more, less = g.extreme("Max", left, above), g.extreme("Min", left, above)
    wide, narrow = g.extreme("Max", own, distance), g.extreme("Min", own, distance)
    whole = g.op("Add", wide, more)
    whole = g.where(g.equal(whole, zero), one, whole)
    product = g.op("Mul", less, g.op("Div", more, whole))
    limit = g.op("Mul", g.op("Mul", narrow, g.op("Div", wide, whole)), info.eps)
    is_explained = g.op("Not", g.greater(product, g.extreme("Max", limit, g.const(info.tiny / info.eps, own.dtype))))
    negligible = g.op("Or", is_tiny, g.op("And", is_small, is_explained))
    return shaped(g.op("Or", negligible, g.equal(g.iota(own.sizes[-1]), g.const(0))), own.shape)


def nan_unless_found(g: Graph, t: Value, bottom: Value) -> Value:
    """T, or NaN for matrices of which rows up to `bottom` have not converged. torch raises an error for them."""
    is_left = shaped(g.greater(bottom, g.const(0)), bottom.shape)
    return shaped(g.where(standing(g, is_left), g.const(float("nan"), t.dtype), t), t.shape)
