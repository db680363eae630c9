"""Elementwise functions of two tensors beyond arithmetic: copysign, atan2, hypot; and the sign bit."""

from __future__ import annotations

import math

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Operand, Value
from onnx_parity.exporter.recording.fakes.pointwise import floats, pointwise
from onnx_parity.exporter.registry.lowerings import lowering


def sign_bit(g: Graph, x: Value) -> Value:
    """Whether a number is negative or -0.0, whose reciprocal is -infinity."""
    zero = g.const(0, x.dtype)
    if not x.dtype.is_floating_point:
        return g.less(x, zero)
    of_zero = g.equal(g.op("Reciprocal", x), g.const(-math.inf, x.dtype))
    return g.op("Or", g.less(x, zero), of_zero)


def with_sign(g: Graph, magnitude: Value, negative: Value) -> Value:
    """A product with 1 or -1, because onnxruntime's Where does not keep the sign of zero."""
    sign = g.op("Sub", g.const(1, magnitude.dtype), g.op("Mul", g.cast(negative, magnitude.dtype), 2))
    return g.op("Mul", magnitude, sign)


@lowering("aten::copysign")
def copysign(g: Graph, self: Value, other: Operand) -> Value:
    magnitude, sign = g.promote(self, other, dtype=g.out.dtype)
    return with_sign(g, g.op("Abs", magnitude), sign_bit(g, sign))


@lowering("aten::atan2")
def atan2(g: Graph, self: Value, other: Value) -> Value:
    """The angle of the point (other, self): atan(|y| / |x|), moved into its quadrant"""
    y, x = g.promote(self, other, dtype=g.out.dtype)
    up, along = g.op("Abs", y), g.op("Abs", x)
    ratio = g.op("Div", up, along)
    # For 0/0 the angle is 0, and for infinity / infinity it is that of the diagonal.
    ratio = g.where(_both(g, up, along, 0.0), g.const(0, x.dtype), ratio)
    ratio = g.where(_both(g, up, along, math.inf), g.const(1, x.dtype), ratio)
    angle = g.elementary("Atan", ratio)
    behind = g.op("Sub", g.const(math.pi, x.dtype), angle)
    return with_sign(g, g.where(sign_bit(g, x), behind, angle), sign_bit(g, y))


def _both(g: Graph, a: Value, b: Value, number: float) -> Value:
    bound = g.const(number, a.dtype)
    return g.op("And", g.equal(a, bound), g.equal(b, bound))


@lowering("aten::hypot")
def hypot(g: Graph, self: Value, other: Value) -> Value:
    """m * sqrt(1 + (n/m)²), where m is the larger of |a| and |b| and n the smaller: no square overflows"""
    a, b = (g.op("Abs", each) for each in g.promote(self, other, dtype=g.out.dtype))
    larger, smaller = g.extreme("Max", a, b), g.extreme("Min", a, b)
    infinity = g.const(math.inf, a.dtype)
    is_zero = g.equal(larger, g.const(0, a.dtype))
    ratio = g.op("Div", smaller, g.where(is_zero, g.const(1, a.dtype), larger))
    length = g.op("Mul", larger, g.op("Sqrt", g.op("Add", g.op("Mul", ratio, ratio), 1)))
    is_infinite = g.op("Or", g.equal(a, infinity), g.equal(b, infinity))
    return g.where(is_infinite, infinity, length)


pointwise(floats, "atan2")
