"""Numbers and reflections of what is complex: tensors with the real and the imaginary part on their first axis.

The building blocks of `matrix_loops` take that axis for one of the batch, and do the same to both parts.
"""

from __future__ import annotations

import msgspec
import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
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

__all__ = [
    "Reflection",
    "adjoint",
    "common_scale",
    "complex_identity",
    "complex_product",
    "conjugate",
    "imaginary_part",
    "inverse",
    "joined",
    "magnitude",
    "number_of",
    "real_part",
    "times",
]


def real_part(g: Graph, x: Value) -> Value:
    return shaped(g.op("Gather", x, g.const([0]), axis_i=0), (1, *x.sizes[1:]))


def imaginary_part(g: Graph, x: Value) -> Value:
    return shaped(g.op("Gather", x, g.const([1]), axis_i=0), (1, *x.sizes[1:]))


def joined(g: Graph, real: Value, imag: Value) -> Value:
    return shaped(g.op("Concat", real, imag, axis_i=0), (2, *real.sizes[1:]))


def by_i(g: Graph, x: Value) -> Value:
    return joined(g, g.op("Neg", imaginary_part(g, x)), real_part(g, x))


def conjugate(g: Graph, x: Value) -> Value:
    signs = torch.tensor([1.0, -1.0], dtype=x.dtype).reshape(2, *[1] * (x.rank - 1))
    return g.op("Mul", x, g.const(signs))


def times(g: Graph, x: Value, y: Value) -> Value:
    """x * y"""
    return g.op("Add", g.op("Mul", x, real_part(g, y)), g.op("Mul", by_i(g, x), imaginary_part(g, y)))


def complex_product(g: Graph, x: Value, y: Value) -> Value:
    """x @ y"""
    crossed = by_i(g, matrix_product(g, x, imaginary_part(g, y)))
    return g.op("Add", matrix_product(g, x, real_part(g, y)), crossed)


def magnitude(g: Graph, x: Value) -> Value:
    """The absolute values."""
    return g.reduce("L2", x, [0], True)


def inverse(g: Graph, x: Value) -> Value:
    """1 / x, without squares that overflow; x must not be 0."""
    scale = g.reduce("Max", g.op("Abs", x), [0], True)
    scaled = g.op("Div", x, scale)
    squares = g.op("Mul", g.reduce("Sum", g.op("Mul", scaled, scaled), [0], True), scale)
    return g.op("Div", conjugate(g, scaled), squares)


def number_of(g: Graph, real: float, rank: int, dtype: torch.dtype) -> Value:
    """A number without an imaginary part."""
    return g.const(torch.tensor([real, 0.0], dtype=dtype).reshape(2, *[1] * (rank - 1)))


def common_scale(g: Graph, a: Value) -> Value:
    """Powers of two, by which matrices are divided so that squares do not overflow."""
    return power_of_two_near(g, g.reduce("Max", largest(g, a, 2), [0], True))


def complex_identity(g: Graph, a: Value, rows: int, columns: int) -> Value:
    ones = identity_matrix(g, a.sizes[rows], a.sizes[columns], a.dtype)
    whole = g.op("Mul", ones, number_of(g, 1.0, 3, a.dtype))
    shape = (a.sizes[rows], a.sizes[columns])
    spread = g.unsqueeze(whole, list(range(1, a.rank - 2)))
    return g.expand(spread, (*a.sizes[:-2], *shape))


def adjoint(g: Graph, a: Value) -> Value:
    """The conjugate of each matrix, transposed."""
    return conjugate(g, transposed(g, a))


class Reflection(msgspec.Struct, frozen=True):
    """1 - tau * v @ v.H"""

    v: Value
    tau: Value

    @classmethod
    def of(cls, g: Graph, source: Value, is_head: Value, is_tail: Value) -> Reflection:
        """The one whose adjoint leaves, of a head and a tail, only the head, and makes it real: LAPACK's larfg."""
        zero, one = g.const(0, source.dtype), g.const(1, source.dtype)
        head = sum_over(g, g.where(is_head, source, zero), -1, keepdim=True)
        tail = g.where(is_tail, source, zero)
        tail_norm = g.reduce("L2", tail, [0, tail.rank - 1], True)
        a_part, b_part, size = real_part(g, head), imaginary_part(g, head), magnitude(g, head)
        norm = g.op("Sqrt", g.op("Add", g.op("Mul", size, size), g.op("Mul", tail_norm, tail_norm)))
        reflected = g.where(g.less(a_part, zero), norm, g.op("Neg", norm))
        # What is real, and has a tail of zeros, stays as it is.
        stays = g.op("And", g.equal(tail_norm, zero), g.equal(b_part, zero))
        divisor = g.where(stays, one, reflected)
        parts = [g.op("Div", g.op("Sub", reflected, a_part), divisor), g.op("Div", g.op("Neg", b_part), divisor)]
        tau = joined(g, *(g.where(stays, zero, part) for part in parts))
        beyond = joined(g, g.op("Sub", a_part, reflected), b_part)
        beyond = g.where(stays, number_of(g, 1.0, head.rank, source.dtype), beyond)
        multiples = times(g, tail, inverse(g, beyond))
        v = g.where(is_head, number_of(g, 1.0, source.rank, source.dtype), multiples)
        return cls(v, tau)

    def applied(self, g: Graph, x: Value, *, adjoint: bool = False) -> Value:
        """H @ x, or H.H @ x"""
        tau = conjugate(g, self.tau) if adjoint else self.tau
        products = complex_product(g, lying(g, conjugate(g, self.v)), x)
        return g.op("Sub", x, times(g, standing(g, times(g, self.v, tau)), products))

    def applied_from_right(self, g: Graph, x: Value) -> Value:
        """x @ H"""
        return adjoint(g, self.applied(g, adjoint(g, x), adjoint=True))
