"""The greatest common divisor and the least common multiple of integers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import same_shape
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering

#: Euclid's algorithm takes at most 92 steps for numbers of 64 bits.
_MOST_STEPS = 93


@lowering("aten::gcd")
def gcd(g: Graph, self: Value, other: Value) -> Value:
    return _gcd(g, *_magnitudes(g, self, other, g.out.dtype))


@lowering("aten::lcm")
def lcm(g: Graph, self: Value, other: Value) -> Value:
    """|a / gcd(a, b) * b|, and 0 for two zeros. As in C, what is narrower is computed in 32 bits."""
    dtype = torch.int32 if g.out.dtype.itemsize < torch.int32.itemsize else g.out.dtype
    a, b = _magnitudes(g, self, other, dtype)
    divisor = _gcd(g, a, b)
    # The magnitude of the least number of its dtype is that number.
    kept = g.where(g.equal(divisor, g.const(0, dtype)), g.const(1, dtype), divisor)
    return g.cast(_magnitude(g, g.op("Mul", g.op("Div", a, kept), b)), g.out.dtype)


def _gcd(g: Graph, a: Value, b: Value) -> Value:
    """Euclid's algorithm: the remainder of a and b takes the place of a until it is 0."""
    zero, one = g.const(0, a.dtype), g.const(1, a.dtype)

    def step(iteration: Value, carried: list[Value]) -> Sequence[Value]:
        one_number, other = carried
        is_done = g.equal(other, zero)
        rest = g.fmod(one_number, g.where(is_done, one, other))
        following = g.where(is_done, one_number, other)
        rest = g.where(is_done, zero, rest)
        left = g.reduce("Max", g.cast(g.not_equal(rest, zero), torch.int32), list(range(rest.rank)), False)
        return [g.cast(left, torch.bool), following, rest]

    return _magnitude(g, g.repeat_while(_MOST_STEPS, [a, b], step)[0])


def _magnitudes(g: Graph, self: Value, other: Value, dtype: torch.dtype) -> list[Value]:
    """The magnitudes of both, in this dtype and in the shape of the result."""
    cast = [_magnitude(g, g.cast(x, dtype)) for x in (self, other)]
    return [x if same_shape(x.sizes, g.out.shape) else g.expand(x, g.out.shape) for x in cast]


def _magnitude(g: Graph, x: Value) -> Value:
    return g.op("Abs", x)
