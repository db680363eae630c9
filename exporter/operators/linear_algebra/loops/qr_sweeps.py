"""The QR algorithm as LAPACK's hseqr and lahqr do it: what is alike for real and for complex matrices.

A matrix becomes zero below the diagonal under its main one. Then each sweep reflects its rows and columns, one after
the other, until elements beside the diagonal are negligible.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol, Self

import msgspec
import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.linear_algebra.loops.matrix_loops import (
    below_diagonal,
    beside_diagonal,
    column,
    standing,
    sum_over,
    triangle,
)

__all__ = [
    "EXCEPTIONAL",
    "EXCEPTIONAL_AFTER",
    "MOST_SWEEPS",
    "Reflects",
    "Window",
    "after_each",
    "before_each",
    "hessenberg",
    "swept",
]

#: For each row: 3 are usual.
MOST_SWEEPS = 30
#: LAPACK's shifts for matrices that do not converge by their own, after so many sweeps.
EXCEPTIONAL_AFTER, EXCEPTIONAL = 10, 0.75


class Reflects(Protocol):
    """A reflection H = 1 - tau * v @ v.H, real or complex."""

    @property
    def v(self) -> Value: ...

    @property
    def tau(self) -> Value: ...

    def __init__(self, v: Value, tau: Value) -> None: ...

    @classmethod
    def of(cls, g: Graph, source: Value, is_head: Value, is_tail: Value) -> Self:
        """The one whose adjoint leaves, of a head and a tail, only the head."""
        ...

    def applied(self, g: Graph, x: Value, *, adjoint: bool = False) -> Value:
        """H @ x, or H.H @ x"""
        ...

    def applied_from_right(self, g: Graph, x: Value) -> Value:
        """x @ H"""
        ...


def _similar(g: Graph, reflection: Reflects, h: Value, z: Value) -> list[Value]:
    """H.H @ h @ H and z @ H"""
    turned = reflection.applied(g, h, adjoint=True)
    return [reflection.applied_from_right(g, turned), reflection.applied_from_right(g, z)]


def hessenberg(g: Graph, a: Value, vectors: Value, reflections: type[Reflects]) -> tuple[Value, Value]:
    """Zeros below the first diagonal under the main one: each column is reflected onto it."""
    rows = g.iota(a.sizes[-1])

    def step(k: Value, carried: list[Value]) -> Sequence[Value]:
        h, z = carried
        head = g.op("Add", k, 1)
        is_head, is_tail = (f(rows, head) for f in (g.equal, g.greater))
        return _similar(g, reflections.of(g, column(g, h, k), is_head, is_tail), h, z)

    h, z = g.repeat(a.sizes[-1], [a, vectors], step)
    return triangle(g, h, -1, True), z


def swept(g: Graph, h: Value, z: Value, per_matrix: Sequence[Size], window: type[Window]) -> tuple[Value, Value]:
    """What sweeps leave of h, or NaN if it does not converge, for which torch raises an error; and z times them.

    `per_matrix` is the shape of one number for each matrix.
    """
    size = h.sizes[-1]
    last = shaped(g.op("Sub", g.scalar(size, torch.int64), 1), ())

    def step(number: Value, carried: list[Value]) -> Sequence[Value]:
        h, z, bottom, sweeps = carried
        found = window.of(g, h, bottom)
        h, z = found.swept(g, z, sweeps)
        bottom = g.where(found.is_done, g.op("Sub", found.top, 1), bottom)
        sweeps = g.where(found.is_done, g.const(1), g.op("Add", sweeps, 1))
        most = g.reduce("Max", bottom, list(range(bottom.rank)), False)
        return [g.greater(most, g.const(0)), h, z, bottom, sweeps]

    initial = [h, z, g.expand(last, per_matrix), g.full(per_matrix, 1, torch.int64)]
    t, z, bottom, _ = g.repeat_while(size * MOST_SWEEPS, initial, step)
    is_left = g.greater(bottom, g.const(0))
    return g.where(standing(g, is_left), g.const(float("nan"), t.dtype), t), z


class Window(msgspec.Struct, frozen=True):
    """The part of each matrix, from row `top` to row `bottom`, that is worked on; all below has been found."""

    reflections: ClassVar[type[Reflects]]
    #: A window of no more rows needs no sweep, and a reflection leaves so many elements below the head.
    span: ClassVar[int]

    h: Value
    rows: Value
    top: Value
    bottom: Value
    is_done: Value
    #: Of each row of h: the element on the diagonal, the one left of it, and the one above it.
    own: Value
    left: Value
    above: Value

    @classmethod
    def of(cls, g: Graph, h: Value, bottom: Value) -> Self:
        """The one that ends in these rows, without what is negligible."""
        size = h.sizes[-1]
        rows, zero = g.iota(size), g.const(0, h.dtype)
        is_left = below_diagonal(g, size)
        own, left, above = beside_diagonal(g, h, is_left)
        before = before_each(g, own)
        distance = g.op("Sub", before, own)
        is_small = _is_negligible(g, *(cls.magnitude(g, each) for each in (left, above, own, before, distance)))
        is_cut = g.op("And", is_small, g.op("Not", g.greater(rows, bottom)))
        places = g.where(is_cut, rows, g.const(0))
        top = g.reduce("Max", places, [own.rank - 1], True)
        is_top = g.equal(rows, top)
        h = g.where(g.op("And", standing(g, is_top), is_left), zero, h)
        left = g.where(is_top, zero, left)
        last_top = g.op("Add", top, cls.span - 1) if cls.span > 1 else top
        is_done = g.greater_or_equal(last_top, bottom)
        return cls(h, rows, top, bottom, is_done, own, left, above)

    @staticmethod
    @abstractmethod
    def magnitude(g: Graph, x: Value) -> Value:
        """By which LAPACK judges what is small."""

    @abstractmethod
    def start(self, g: Graph, sweeps: Value) -> tuple[Value, Value]:
        """The row where a sweep begins, and the vector that it reflects first, which the shifts give."""

    def swept(self, g: Graph, z: Value, sweeps: Value) -> tuple[Value, Value]:
        """h after one sweep, and z times its reflections; both as they are where `is_done`."""
        rows, zero = self.rows, g.const(0, z.dtype)
        first, start = self.start(g, sweeps)

        def step(k: Value, carried: list[Value]) -> Sequence[Value]:
            h, vectors = carried
            before = column(g, h, g.extreme("Max", g.op("Sub", k, 1), g.const(0)))
            source = g.where(g.equal(first, k), start, before)
            end = g.extreme("Min", g.op("Add", k, self.span), self.bottom)
            is_head = g.equal(rows, k)
            is_tail = g.op("And", g.greater(rows, k), g.op("Not", g.greater(rows, end)))
            found = self.reflections.of(g, source, is_head, is_tail)
            is_beyond = g.op("Not", g.less(k, self.bottom))
            rests = g.op("Or", g.op("Or", self.is_done, g.greater(first, k)), is_beyond)
            tau = g.where(rests, zero, found.tau)
            return _similar(g, self.reflections(found.v, tau), h, vectors)

        h, z = g.repeat(rows.sizes[0], [self.h, z], step)
        return triangle(g, h, -1, True), z

    def at(self, g: Graph, vector: Value, place: Value) -> Value:
        """The element of each vector at a place."""
        is_there = g.equal(self.rows, place)
        return sum_over(g, g.where(is_there, vector, g.const(0, vector.dtype)), -1, keepdim=True)


def before_each(g: Graph, own: Value) -> Value:
    """The elements of a diagonal before those of each row; the first one for the first."""
    places = g.extreme("Max", g.op("Sub", g.iota(own.sizes[-1]), 1), g.const(0))
    return shaped(g.op("Gather", own, places, axis_i=own.rank - 1), own.shape)


def after_each(g: Graph, own: Value) -> Value:
    """The elements of a diagonal after those of each row; the last one for the last."""
    size = own.sizes[-1]
    places = g.extreme("Min", g.op("Add", g.iota(size), 1), g.op("Sub", g.scalar(size, torch.int64), 1))
    return shaped(g.op("Gather", own, places, axis_i=own.rank - 1), own.shape)


def _is_negligible(g: Graph, left: Value, above: Value, own: Value, before: Value, distance: Value) -> Value:
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
    return g.op("Or", negligible, g.equal(g.iota(own.sizes[-1]), g.const(0)))
