"""The Schur decomposition of complex matrices, by the QR algorithm with single shifts, as LAPACK's lahqr does it."""

from __future__ import annotations

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.linear_algebra.loops.complex_loops import (
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
from onnx_parity.exporter.operators.linear_algebra.loops.matrix_loops import triangle
from onnx_parity.exporter.operators.linear_algebra.loops.qr_sweeps import (
    EXCEPTIONAL,
    EXCEPTIONAL_AFTER,
    Window,
    after_each,
    hessenberg,
    swept,
)
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("onnx_parity::complex_schur")
def complex_schur(g: Graph, a: Value) -> tuple[Value, Value]:
    """T and Z of A = Z @ T @ Z.H, where T is an upper triangle."""
    scale = common_scale(g, a)
    scaled = g.op("Div", a, scale)
    upper, vectors = hessenberg(g, scaled, complex_identity(g, a, -1, -1), Reflection)
    t, z = swept(g, upper, vectors, (1, *a.sizes[1:-2], 1), _Window)
    return triangle(g, g.op("Mul", t, scale), 0, True), z


def _square_root(g: Graph, x: Value) -> Value:
    """The root with a real part that is not negative."""
    a, b = real_part(g, x), imaginary_part(g, x)
    zero, one = g.const(0, x.dtype), g.const(1, x.dtype)
    half = g.op("Mul", g.op("Add", magnitude(g, x), g.op("Abs", a)), 0.5)
    root = g.op("Sqrt", half)
    divisor = g.where(g.equal(root, zero), one, root)
    other = g.op("Div", g.op("Mul", g.op("Abs", b), 0.5), divisor)
    is_right = g.greater_or_equal(a, zero)
    real, size = g.where(is_right, root, other), g.where(is_right, other, root)
    imaginary = g.where(g.less(b, zero), g.op("Neg", size), size)
    return joined(g, real, imaginary)


class _Window(Window, frozen=True):
    """Its sweeps have one shift."""

    reflections = Reflection
    span = 1

    @staticmethod
    def magnitude(g: Graph, x: Value) -> Value:
        """|real| + |imaginary|"""
        return g.reduce("Sum", g.op("Abs", x), [0], True)

    def start(self, g: Graph, sweeps: Value) -> tuple[Value, Value]:
        shift = self._shift(g, sweeps)
        first = self._first_row(g, shift)
        return first, self._first_column(g, shift, first)

    def _shift(self, g: Graph, sweeps: Value) -> Value:
        """The eigenvalue of the last block of 2 by 2 that is nearer to its last element: Wilkinson's shift."""
        last, zero = self.bottom, g.const(0, self.own.dtype)
        before = g.op("Sub", last, 1)
        a, d = self.at(g, self.own, before), self.at(g, self.own, last)
        b, c = self.at(g, self.above, last), self.at(g, self.left, last)
        one = number_of(g, 1.0, a.rank, a.dtype)
        half = g.op("Mul", g.op("Sub", a, d), 0.5)
        crossed = times(g, b, c)
        root = _square_root(g, g.op("Add", times(g, half, half), crossed))
        # d - b c / (half + root), with the sign of the root that makes the sum large.
        products = g.op("Mul", half, root)
        is_against = g.less(g.reduce("Sum", products, [0], True), zero)
        root = g.where(is_against, g.op("Neg", root), root)
        total = g.op("Add", half, root)
        is_zero = g.equal(magnitude(g, total), zero)
        moved = times(g, crossed, inverse(g, g.where(is_zero, one, total)))
        usual = g.op("Sub", d, g.where(is_zero, zero, moved))

        rounds = g.remainder(sweeps, g.const(2 * EXCEPTIONAL_AFTER))
        at_bottom, at_top = (g.equal(rounds, g.const(number)) for number in (0, EXCEPTIONAL_AFTER))
        after = g.op("Add", self.top, 1)
        size = g.where(at_bottom, magnitude(g, c), magnitude(g, self.at(g, self.left, after)))
        beside = g.where(at_bottom, d, self.at(g, self.own, self.top))
        exceptional = g.op("Add", g.op("Mul", g.op("Mul", size, EXCEPTIONAL), one), beside)
        return g.where(g.op("Or", at_bottom, at_top), exceptional, usual)

    def _first_row(self, g: Graph, shift: Value) -> Value:
        """Where a sweep may begin: at the last of two elements left of the diagonal, one after the other, whose product
        is negligible, and else at the top."""
        rows = self.rows
        distance = self.magnitude(g, g.op("Sub", self.own, shift))
        sizes, here = self.magnitude(g, self.own), self.magnitude(g, self.left)
        below, after = (after_each(g, each) for each in (here, sizes))
        limit = g.op("Mul", g.op("Mul", distance, g.op("Add", sizes, after)), torch.finfo(shift.dtype).eps)
        is_small = g.op("Not", g.greater(g.op("Mul", here, below), limit))
        is_inside = g.op("And", g.greater(rows, self.top), g.less(rows, self.bottom))
        place = g.where(g.op("And", is_small, is_inside), rows, g.const(0))
        last = g.reduce("Max", place, [place.rank - 1], True)
        return g.extreme("Max", last, self.top)

    def _first_column(self, g: Graph, shift: Value, first: Value) -> Value:
        """The first column of h - shift, from the row where a sweep begins."""
        after = g.op("Add", first, 1)
        head = g.op("Sub", self.at(g, self.own, first), shift)
        below = self.at(g, self.left, after)
        zero = g.const(0, self.own.dtype)
        found = g.where(g.equal(self.rows, after), below, zero)
        return g.where(g.equal(self.rows, first), head, found)
