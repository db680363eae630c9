"""The greatest common divisor and the least common multiple of integers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import same_shape, shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering

#: Euclid's algorithm takes at most 92 steps for numbers of 64 bits.
_MOST_STEPS = 93


@lowering("aten::gcd")
def gcd(g: Graph, self: Value, other: Value) -> Value:
    return _gcd(g, *_magnitudes(g, self, other))


@lowering("aten::lcm")
def lcm(g: Graph, self: Value, other: Value) -> Value:
    """|a / gcd(a, b) * b|, and 0 for two zeros"""
    a, b = _magnitudes(g, self, other)
    divisor = _gcd(g, a, b)
    kept = g.extreme("Max", divisor, g.const(1, divisor.dtype))
    return _magnitude(g, g.op("Mul", g.op("Div", a, kept), b))


def _gcd(g: Graph, a: Value, b: Value) -> Value:
    """Euclid's algorithm: the remainder of a and b takes the place of a until it is 0."""
    zero, one = g.const(0, a.dtype), g.const(1, a.dtype)

    def step(iteration: Value, carried: list[Value]) -> Sequence[Value]:
        one_number, other = carried
        is_done = shaped(g.equal(other, zero), a.shape)
        rest = g.fmod(one_number, shaped(g.where(is_done, one, other), a.shape))
        following = shaped(g.where(is_done, one_number, other), a.shape)
        rest = shaped(g.where(is_done, zero, rest), a.shape)
        left = g.reduce("Max", g.cast(g.not_equal(rest, zero), torch.int32), list(range(rest.rank)), False)
        return [g.cast(left, torch.bool), following, rest]

    return _magnitude(g, g.repeat_while(_MOST_STEPS, [a, b], step)[0])


def _magnitudes(g: Graph, *operands: Value) -> list[Value]:
    """The magnitudes of both, in the dtype and the shape of the result."""
    cast = [_magnitude(g, shaped(g.cast(x, g.out.dtype), x.shape)) for x in operands]
    return [x if same_shape(x.sizes, g.out.shape) else g.expand(x, g.out.shape) for x in cast]


def _magnitude(g: Graph, x: Value) -> Value:
    return shaped(g.op("Abs", x), x.shape)
