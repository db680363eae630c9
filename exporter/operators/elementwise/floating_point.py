"""The parts and the neighbours of floating-point numbers: frexp and nextafter."""

from __future__ import annotations

import math

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import same_shape
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.special.series import choose, number
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("aten::frexp")
def frexp(g: Graph, self: Value) -> tuple[Value, Value]:
    """x = mantissa * 2 ** exponent, with a mantissa from 1/2 up to 1; 0, infinities and NaN have the exponent 0"""
    x = g.cast(self, torch.float64)
    magnitude = g.op("Abs", x)
    zero = number(g, 0)
    plain = g.op("Or", g.op("Or", g.is_nan(x), g.is_infinite(x)), g.equal(x, zero))
    # The smallest numbers are brought into the range in which all bits of a mantissa fit.
    is_small = g.less(magnitude, number(g, 2.0**-1000))
    lifted = choose(g, is_small, g.op("Mul", x, 2.0**60), x)
    lifted = choose(g, plain, number(g, 1), lifted)
    estimate = g.op("Floor", g.op("Mul", g.op("Log", g.op("Abs", lifted)), 1 / math.log(2)))
    # 2 ** 1024 is no number: the power is taken in two parts.
    half = g.op("Floor", g.op("Mul", estimate, 0.5))
    rest = g.op("Sub", estimate, half)
    for part in (half, rest):
        lifted = g.op("Mul", lifted, g.op("Pow", number(g, 2), g.op("Neg", part)))
    # The logarithm may be off by one.
    mantissa = g.op("Mul", lifted, 0.5)
    is_above = g.cast(g.greater_or_equal(g.op("Abs", mantissa), number(g, 1)), torch.float64)
    is_below = g.cast(g.less(g.op("Abs", mantissa), number(g, 0.5)), torch.float64)
    shift = g.op("Sub", is_above, is_below)
    mantissa = g.op("Mul", mantissa, g.op("Pow", number(g, 2), g.op("Neg", shift)))
    exponent = g.op("Add", g.op("Add", estimate, shift), 1)
    exponent = choose(g, is_small, g.op("Sub", exponent, 60), exponent)
    exponent = choose(g, plain, zero, exponent)
    return g.cast(choose(g, plain, x, mantissa), g.out.dtype), g.cast(exponent, torch.int32)


@lowering("aten::nextafter")
def nextafter(g: Graph, self: Value, other: Value) -> Value:
    """The next number of the dtype after `self` in the direction of `other`

    S. Rump, P. Zimmermann, S. Boldo and G. Melquiond, 2009: x + u (1 + 2 u) |x| is rounded to the next number, where u
    is half of the distance from 1 to the next number. Where that product would be too small to be exact, x is scaled;
    and among the smallest numbers, whose distance does not depend on x, it is added.
    """
    dtype = g.out.dtype
    computed = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    x, y = (g.cast(each, computed) for each in (self, other))
    x, y = (each if same_shape(each.sizes, g.out.shape) else g.expand(each, g.out.shape) for each in (x, y))
    unit = torch.finfo(dtype).eps / 2
    distance = torch.finfo(dtype).tiny * torch.finfo(dtype).eps
    magnitude = g.op("Abs", x)
    grows = g.op("Sub", g.op("Mul", g.cast(g.greater(y, x), computed), 2), 1)
    factor = g.op("Mul", grows, unit * (1 + 2 * unit))
    usual = g.op("Add", x, g.op("Mul", factor, magnitude))
    lifted = g.op("Mul", x, 1 / unit)
    scaled = g.op("Mul", g.op("Add", lifted, g.op("Mul", factor, g.op("Abs", lifted))), unit)
    least = g.op("Add", x, g.op("Mul", grows, distance))
    found = choose(g, g.less(magnitude, g.const(distance / unit, computed)), least, scaled)
    found = choose(g, g.less(magnitude, g.const(distance / unit / unit, computed)), found, usual)
    # From infinity on it goes to the largest number.
    found = choose(g, g.is_infinite(x), g.op("Mul", grows, -torch.finfo(dtype).max), found)
    found = choose(g, g.op("Or", g.equal(x, y), g.is_nan(y)), y, found)
    return g.cast(found, dtype)
