"""The real Schur decomposition, by Francis's QR algorithm: shifts, and bulges that are chased down the diagonal.

It does what LAPACK's hseqr does for small matrices, so that eigenvalues are found in the same order, as a rule.
"""

from __future__ import annotations

import msgspec
import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.linear_algebra.loops.matrix_loops import (
    identity_matrix,
    largest,
    lying,
    matrix_product,
    power_of_two_near,
    standing,
    sum_over,
    transposed,
)
from onnx_parity.exporter.operators.linear_algebra.loops.qr_sweeps import (
    EXCEPTIONAL,
    EXCEPTIONAL_AFTER,
    Window,
    after_each,
    before_each,
    hessenberg,
    swept,
)
from onnx_parity.exporter.registry.lowerings import lowering

#: Of LAPACK's exceptional shifts: what takes the place of the element beside the diagonal.
_EXCEPTIONAL_BESIDE = -0.4375


@lowering("onnx_parity::schur")
def schur(g: Graph, a: Value) -> tuple[Value, Value]:
    """T and Z of A = Z @ T @ Z.T, where T has blocks of 1 by 1 and 2 by 2 on its diagonal, and zeros below."""
    size = a.sizes[-1]
    scale = power_of_two_near(g, largest(g, a, 2))
    start = g.expand(identity_matrix(g, size, size, a.dtype), a.sizes)
    upper, vectors = hessenberg(g, g.op("Div", a, scale), start, _Reflection)
    t, z = swept(g, upper, vectors, (*a.sizes[:-2], 1), _Window)
    return g.op("Mul", t, scale), z


class _Reflection(msgspec.Struct, frozen=True):
    """1 - tau * v @ v.T"""

    v: Value
    tau: Value

    @classmethod
    def of(cls, g: Graph, source: Value, is_head: Value, is_tail: Value) -> _Reflection:
        """The one that leaves, of a head and a tail, only the head, as LAPACK's larfg does."""
        zero, one = g.const(0, source.dtype), g.const(1, source.dtype)
        head = sum_over(g, g.where(is_head, source, zero), -1, keepdim=True)
        tail = g.where(is_tail, source, zero)
        tail_norm = g.reduce("L2", tail, [source.rank - 1], True)
        norm = g.op("Sqrt", g.op("Add", g.op("Mul", head, head), g.op("Mul", tail_norm, tail_norm)))
        reflected = g.where(g.less(head, zero), norm, g.op("Neg", norm))
        stays = g.equal(tail_norm, zero)
        tau = g.where(stays, zero, g.op("Div", g.op("Sub", reflected, head), g.where(stays, one, reflected)))
        v = g.where(is_head, one, g.op("Div", tail, g.where(stays, one, g.op("Sub", head, reflected))))
        return cls(v, tau)

    def applied(self, g: Graph, x: Value, *, adjoint: bool = False) -> Value:
        """P @ x; P is its own adjoint."""
        products = matrix_product(g, lying(g, self.v), x)
        return g.op("Sub", x, g.op("Mul", standing(g, g.op("Mul", self.v, self.tau)), products))

    def applied_from_right(self, g: Graph, x: Value) -> Value:
        """x @ P"""
        return transposed(g, self.applied(g, transposed(g, x)))


class _Window(Window, frozen=True):
    """Its sweeps have two shifts at once, so that what is complex in pairs is found with real numbers."""

    reflections = _Reflection
    span = 2

    @staticmethod
    def magnitude(g: Graph, x: Value) -> Value:
        return g.op("Abs", x)

    def start(self, g: Graph, sweeps: Value) -> tuple[Value, Value]:
        return self._first_column(g, *self._shifts(g, sweeps))

    def _shifts(self, g: Graph, sweeps: Value) -> tuple[Value, Value]:
        """The real part of both shifts, and the square of the imaginary one.

        They are the eigenvalues of the last block, or twice the nearer one if these are real.
        """
        last, zero = self.bottom, g.const(0, self.own.dtype)
        before, after = g.op("Sub", last, 1), g.op("Add", self.top, 1)
        a, d = self.at(g, self.own, before), self.at(g, self.own, last)
        b, c = self.at(g, self.above, last), self.at(g, self.left, last)
        rounds = g.remainder(sweeps, g.const(2 * EXCEPTIONAL_AFTER))
        at_bottom, at_top = (g.equal(rounds, g.const(number)) for number in (0, EXCEPTIONAL_AFTER))
        is_exceptional = g.op("Or", at_bottom, at_top)
        sums = [
            g.op("Add", *(g.op("Abs", self.at(g, self.left, place)) for place in places))
            for places in ((last, before), (after, g.op("Add", after, 1)))
        ]
        near = g.where(at_bottom, sums[0], sums[1])
        beside = g.where(at_bottom, d, self.at(g, self.own, self.top))
        shifted = g.op("Add", g.op("Mul", near, EXCEPTIONAL), beside)
        a, d = (g.where(is_exceptional, shifted, each) for each in (a, d))
        b = g.where(is_exceptional, g.op("Mul", near, _EXCEPTIONAL_BESIDE), b)
        c = g.where(is_exceptional, near, c)

        mean = g.op("Mul", g.op("Add", a, d), 0.5)
        half = g.op("Sub", a, mean)
        square = g.op("Add", g.op("Mul", half, half), g.op("Mul", b, c))
        root = g.op("Sqrt", g.op("Abs", square))
        plus, minus = g.op("Add", mean, root), g.op("Sub", mean, root)
        far_plus, far_minus = (g.op("Abs", g.op("Sub", each, d)) for each in (plus, minus))
        nearer = g.where(g.greater(far_plus, far_minus), minus, plus)
        is_complex = g.less(square, zero)
        shift = g.where(is_complex, mean, nearer)
        return shift, g.where(is_complex, g.op("Neg", square), zero)

    def _first_column(self, g: Graph, shift: Value, imaginary: Value) -> tuple[Value, Value]:
        """The row where a sweep begins, and of there the first column of (h - shift) @ (h - shift) + imaginary.

        It begins at the last of two elements left of the diagonal, one after the other, whose product is negligible,
        and else at the top.
        """
        rows, zero = self.rows, g.const(0, self.own.dtype)
        after, below, beside = (after_each(g, vector) for vector in (self.own, self.left, self.above))
        left = g.op("Sub", self.own, shift)
        head = g.op("Add", g.op("Add", g.op("Mul", left, left), imaginary), g.op("Mul", beside, below))
        next_one = g.op("Mul", below, g.op("Add", left, g.op("Sub", after, shift)))
        last = g.op("Mul", below, after_each(g, below))
        column_here = [head, next_one, last]

        sizes = [g.op("Abs", x) for x in (*column_here, before_each(g, self.own), self.own, after)]
        total = g.op("Add", g.op("Add", sizes[3], sizes[4]), sizes[5])
        limit = g.op("Mul", g.op("Mul", sizes[0], total), torch.finfo(shift.dtype).eps)
        product = g.op("Mul", g.op("Abs", self.left), g.op("Add", sizes[1], sizes[2]))
        is_inside = g.op("And", g.greater(rows, self.top), g.less(rows, g.op("Sub", self.bottom, 1)))
        begins = g.op("And", g.op("Not", g.greater(product, limit)), is_inside)
        places = g.where(begins, rows, g.const(0))
        first = g.extreme("Max", g.reduce("Max", places, [len(places.sizes) - 1], True), self.top)

        start: Value | None = None
        for number, vector in enumerate(column_here):
            is_there = g.equal(rows, g.op("Add", first, number) if number else first)
            start = g.where(is_there, self.at(g, vector, first), zero if start is None else start)
        assert start is not None
        return first, start
