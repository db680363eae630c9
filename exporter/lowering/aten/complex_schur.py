"""The Schur decomposition of complex matrices, by the QR algorithm with single shifts, as LAPACK's lahqr does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnx_parity.exporter.lowering.aten.complex_loops import (
    Reflection,
    common_scale,
    complex_identity,
    imaginary_part,
    inverse,
    joined,
    magnitude,
    number_of,
    real_part,
    times,
)
from onnx_parity.exporter.lowering.aten.matrix_loops import (
    below_diagonal,
    beside_diagonal,
    column,
    standing,
    sum_over,
    triangle,
)
from onnx_parity.exporter.lowering.aten.schur import (
    EXCEPTIONAL,
    EXCEPTIONAL_AFTER,
    MOST_SWEEPS,
    after_each,
    before_each,
    is_negligible,
    nan_unless_found,
)
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.registry import lowering
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value


@lowering("onnx_parity::complex_schur")
def complex_schur(g: Graph, a: Value) -> tuple[Value, Value]:
    """T and Z of A = Z @ T @ Z.H, where T is an upper triangle."""
    size = a.sizes[-1]
    scale = common_scale(g, a)
    scaled = shaped(g.op("Div", a, scale), a.shape)
    upper, vectors = _hessenberg(g, scaled, complex_identity(g, a, -1, -1))
    last = g.op("Sub", g.scalar(size, torch.int64), 1)
    per_matrix = (1, *a.sizes[1:-2], 1)

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
    t = triangle(g, shaped(g.op("Mul", t, scale), a.shape), 0, True)
    return nan_unless_found(g, t, bottom), z


def _hessenberg(g: Graph, a: Value, vectors: Value) -> tuple[Value, Value]:
    """Zeros below the first diagonal under the main one, which is real: each column is reflected onto it."""
    rows = g.iota(a.sizes[-1])

    def step(k: Value, carried: list[Value]) -> Sequence[Value]:
        h, z = carried
        head = g.op("Add", k, 1)
        is_head, is_tail = (shaped(f(rows, head), rows.shape) for f in (g.equal, g.greater))
        return _similar(g, Reflection.of(g, column(g, h, k), is_head, is_tail), h, z)

    h, z = g.repeat(a.sizes[-1], [a, vectors], step)
    return triangle(g, h, -1, True), z


def _similar(g: Graph, reflection: Reflection, h: Value, z: Value) -> list[Value]:
    """P.H @ h @ P and z @ P"""
    turned = reflection.applied(g, h, adjoint=True)
    return [reflection.applied_from_right(g, turned), reflection.applied_from_right(g, z)]


def _square_root(g: Graph, x: Value) -> Value:
    """The root with a real part that is not negative."""
    a, b = real_part(g, x), imaginary_part(g, x)
    zero, one = g.const(0, x.dtype), g.const(1, x.dtype)
    half = g.op("Mul", g.op("Add", magnitude(g, x), g.op("Abs", a)), 0.5)
    root = shaped(g.op("Sqrt", half), a.shape)
    divisor = g.where(shaped(g.equal(root, zero), a.shape), one, root)
    other = g.op("Div", g.op("Mul", g.op("Abs", b), 0.5), divisor)
    is_right = shaped(g.greater_or_equal(a, zero), a.shape)
    real, size = g.where(is_right, root, other), g.where(is_right, other, root)
    imaginary = g.where(shaped(g.less(b, zero), b.shape), g.op("Neg", size), size)
    return joined(g, shaped(real, a.shape), shaped(imaginary, a.shape))


def _size(g: Graph, x: Value) -> Value:
    """|real| + |imaginary|, by which LAPACK judges what is small."""
    return shaped(g.reduce("Sum", g.op("Abs", x), [0], True), (1, *x.sizes[1:]))


@dataclass(frozen=True, slots=True)
class _Window:
    """The part of each matrix, from row `top` to row `bottom`, that is worked on; all below has been found."""

    h: Value
    rows: Value
    top: Value
    bottom: Value
    #: Whether it has one row, which needs no sweep.
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
        before = before_each(g, own)
        distance = shaped(g.op("Sub", before, own), own.shape)
        is_small = is_negligible(g, *(_size(g, each) for each in (left, above, own, before, distance)))
        is_cut = g.op("And", is_small, g.op("Not", shaped(g.greater(rows, bottom), is_small.shape)))
        places = shaped(g.where(is_cut, rows, g.const(0)), is_small.shape)
        top = g.reduce("Max", places, [own.rank - 1], True)
        is_top = shaped(g.equal(rows, top), is_small.shape)
        h = shaped(g.where(g.op("And", standing(g, is_top), is_left), zero, h), h.shape)
        left = shaped(g.where(is_top, zero, left), own.shape)
        return cls(h, rows, top, bottom, shaped(g.equal(top, bottom), bottom.shape), own, left, above)

    def swept(self, g: Graph, z: Value, sweeps: Value) -> tuple[Value, Value]:
        """h after one sweep with a shift, and z times its reflections; both as they are where `is_done`."""
        rows, zero = self.rows, g.const(0, z.dtype)
        shift = self._shift(g, sweeps)
        first = self._first_row(g, shift)
        start = self._first_column(g, shift, first)

        def step(k: Value, carried: list[Value]) -> Sequence[Value]:
            h, vectors = carried
            before = column(g, h, g.extreme("Max", g.op("Sub", k, 1), g.const(0)))
            source = shaped(g.where(g.equal(first, k), start, before), start.shape)
            end = g.extreme("Min", g.op("Add", k, 1), self.bottom)
            is_head = shaped(g.equal(rows, k), rows.shape)
            is_tail = g.op("And", g.greater(rows, k), g.op("Not", g.greater(rows, end)))
            found = Reflection.of(g, source, is_head, shaped(is_tail, (*self.top.sizes[:-1], rows.sizes[0])))
            is_beyond = g.op("Not", g.less(k, self.bottom))
            rests = g.op("Or", g.op("Or", self.is_done, g.greater(first, k)), is_beyond)
            tau = shaped(g.where(rests, zero, found.tau), found.tau.shape)
            return _similar(g, Reflection(found.v, tau), h, vectors)

        h, z = g.repeat(rows.sizes[0], [self.h, z], step)
        return triangle(g, h, -1, True), z

    def _at(self, g: Graph, vector: Value, place: Value) -> Value:
        """The element of each vector at a place."""
        is_there = g.equal(self.rows, place)
        return sum_over(g, shaped(g.where(is_there, vector, g.const(0, vector.dtype)), vector.shape), -1, keepdim=True)

    def _shift(self, g: Graph, sweeps: Value) -> Value:
        """The eigenvalue of the last block of 2 by 2 that is nearer to its last element: Wilkinson's shift."""
        last, zero = self.bottom, g.const(0, self.own.dtype)
        before = g.op("Sub", last, 1)
        a, d = self._at(g, self.own, before), self._at(g, self.own, last)
        b, c = self._at(g, self.above, last), self._at(g, self.left, last)
        one = number_of(g, 1.0, a.rank, a.dtype)
        half = shaped(g.op("Mul", g.op("Sub", a, d), 0.5), a.shape)
        crossed = times(g, b, c)
        root = _square_root(g, shaped(g.op("Add", times(g, half, half), crossed), a.shape))
        # d - b c / (half + root), with the sign of the root that makes the sum large.
        products = g.op("Mul", half, root)
        is_against = shaped(g.less(g.reduce("Sum", products, [0], True), zero), last.shape)
        root = shaped(g.where(is_against, g.op("Neg", root), root), a.shape)
        total = shaped(g.op("Add", half, root), a.shape)
        is_zero = shaped(g.equal(magnitude(g, total), zero), last.shape)
        moved = times(g, crossed, inverse(g, shaped(g.where(is_zero, one, total), a.shape)))
        usual = shaped(g.op("Sub", d, g.where(is_zero, zero, moved)), a.shape)

        rounds = g.remainder(sweeps, g.const(2 * EXCEPTIONAL_AFTER))
        at_bottom, at_top = (g.equal(rounds, g.const(number)) for number in (0, EXCEPTIONAL_AFTER))
        after = g.op("Add", self.top, 1)
        size = g.where(at_bottom, magnitude(g, c), magnitude(g, self._at(g, self.left, after)))
        beside = g.where(at_bottom, d, self._at(g, self.own, self.top))
        exceptional = g.op("Add", g.op("Mul", g.op("Mul", size, EXCEPTIONAL), one), beside)
        return shaped(g.where(g.op("Or", at_bottom, at_top), exceptional, usual), a.shape)

    def _first_row(self, g: Graph, shift: Value) -> Value:
        """Where a sweep may begin: at the last of two elements left of the diagonal, one after the other, whose product
        is negligible, and else at the top."""
        rows = self.rows
        distance = _size(g, shaped(g.op("Sub", self.own, shift), self.own.shape))
        sizes, here = _size(g, self.own), _size(g, self.left)
        below, after = (after_each(g, each) for each in (here, sizes))
        limit = g.op("Mul", g.op("Mul", distance, g.op("Add", sizes, after)), torch.finfo(shift.dtype).eps)
        is_small = g.op("Not", g.greater(g.op("Mul", here, below), limit))
        is_inside = g.op("And", g.greater(rows, self.top), g.less(rows, self.bottom))
        place = shaped(g.where(g.op("And", is_small, is_inside), rows, g.const(0)), here.shape)
        last = g.reduce("Max", place, [place.rank - 1], True)
        return shaped(g.extreme("Max", last, self.top), self.top.shape)

    def _first_column(self, g: Graph, shift: Value, first: Value) -> Value:
        """The first column of h - shift, from the row where a sweep begins."""
        after = g.op("Add", first, 1)
        head = g.op("Sub", self._at(g, self.own, first), shift)
        below = self._at(g, self.left, after)
        zero = g.const(0, self.own.dtype)
        found = g.where(g.equal(self.rows, after), below, zero)
        return shaped(g.where(g.equal(self.rows, first), head, found), self.own.shape)
