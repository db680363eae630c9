"""The bits of numbers as those of numbers of another dtype: `x.view(torch.int32)`.

ONNX has an operator for them from opset 26 on. Before it, those of floats of which float64 has all are computed.
"""

from __future__ import annotations

import math
from functools import partial, reduce

import torch

from onnx_parity.exporter.dtypes import TO_ONNX
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.arithmetic.elementwise_binary import sign_bit, with_sign
from onnx_parity.exporter.registry.lowerings import lowering

#: The integers of so many bytes.
_SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_UNSIGNED = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32}
#: How many bits the fraction of a float has, and its exponent.
_PARTS = {torch.float32: (23, 8), torch.float16: (10, 5), torch.bfloat16: (7, 8)}


@lowering("aten::view.dtype")
def view_dtype(g: Graph, self: Value, dtype: torch.dtype) -> Value:
    """Each number becomes several of fewer bits, the lowest first, or several become one of more"""
    before, after = self.dtype.itemsize, dtype.itemsize
    if before == after:
        return shaped(_bit_cast(g, self, dtype), self.shape)
    narrow = min(before, after)
    powers = [1 << 8 * narrow * place for place in range(max(before, after) // narrow)]
    if before > after:
        wide = g.unsqueeze(g.cast(_bit_cast(g, self, _SIGNED[before]), torch.int64), [self.rank])
        parts = g.cast(g.floor_divide(wide, g.const(torch.tensor(powers))), _SIGNED[after])
        return _bit_cast(g, g.reshape(parts, g.out.shape), dtype)
    positive = g.cast(_bit_cast(g, self, _UNSIGNED[before]), torch.int64)
    parts = g.reshape(positive, [*g.out.shape, len(powers)])
    # They are added one by one: onnxruntime 1.31 sums integers in float64.
    joined = [g.gather(parts, g.scalar(place, torch.int64), self.rank) for place in range(len(powers))]
    weighted = [g.op("Mul", part, power) for part, power in zip(joined, powers, strict=True)]
    return _bit_cast(g, g.cast(reduce(partial(g.op, "Add"), weighted), _SIGNED[after]), dtype)


def _bit_cast(g: Graph, x: Value, dtype: torch.dtype) -> Value:
    """The bits of numbers as those of another dtype of the same size. Casts of integers keep the lowest bits."""
    if x.dtype is dtype:
        return x
    if not x.dtype.is_floating_point and not dtype.is_floating_point:
        return g.cast(x, dtype)
    can_compute = all(each in _PARTS or not each.is_floating_point for each in (x.dtype, dtype))
    if can_compute and not g.has_kernel("BitCast", x.dtype, "T1"):
        bits = _bits_of(g, x) if x.dtype in _PARTS else x
        return _of_bits(g, bits, dtype) if dtype in _PARTS else g.cast(bits, dtype)
    g.require_opset(26, f"the bits of {x.dtype} as {dtype} need ONNX's BitCast")
    return g.op("BitCast", x, to_i=TO_ONNX[dtype].value)


def _bits_of(g: Graph, x: Value) -> Value:
    """The bits of floats, as int64. A NaN has those of torch.nan.

    A float is a number of units, each of the size of the smallest float, and has the exponent e + 1 if it is less than
    2**(fraction + e + 1) units, where e is 0 at least. The bits are e * 2**fraction + units / 2**e, for infinity as
    for the number that would follow the largest one. Logarithms of two floats differ by 2**-24 or more, so that they
    are exact enough to round down once some of that is added.
    """
    fraction, exponent = _PARTS[x.dtype]
    bias = (1 << exponent - 1) - 1
    infinity = 2.0 ** (2 * bias + fraction)
    wide = g.cast(x, torch.float64)
    units = g.op("Mul", g.op("Abs", wide), 2.0 ** (bias - 1 + fraction))
    units = g.extreme("Min", units, g.const(infinity, torch.float64))
    units = g.where(g.is_nan(wide), g.const(infinity * 1.5, torch.float64), units)
    exact = g.elementary("Log", g.extreme("Max", units, g.const(2.0**fraction, torch.float64)))
    exact = g.op("Add", g.op("Mul", exact, 1 / math.log(2)), 2.0**-26 - fraction)
    halved = g.cast(g.op("Floor", exact), torch.int64)
    powers = g.const(torch.tensor([2.0**-each for each in range(2 * bias + 1)], dtype=torch.float64))
    rest = g.cast(g.op("Mul", units, g.gather(powers, halved, 0)), torch.int64)
    bits = g.op("Add", g.op("Mul", halved, 1 << fraction), rest)
    negative = g.op("Mul", g.cast(sign_bit(g, wide), torch.int64), -(1 << fraction + exponent))
    return shaped(g.op("Add", bits, negative), x.shape)


def _of_bits(g: Graph, bits: Value, dtype: torch.dtype) -> Value:
    """The floats that have these bits: those of the fraction, of the exponent, and the sign."""
    fraction, exponent = _PARTS[dtype]
    bias, greatest = (1 << exponent - 1) - 1, (1 << exponent) - 1
    bits = g.cast(bits, torch.int64)
    low = g.remainder(bits, g.const(1 << fraction + exponent, torch.int64))
    unit = g.const(1 << fraction, torch.int64)
    exponents, rest = g.floor_divide(low, unit), g.cast(g.remainder(low, unit), torch.float64)
    firsts = g.const(torch.tensor([0.0, *[2.0**fraction] * greatest], dtype=torch.float64))
    sizes = [2.0 ** (max(each, 1) - bias - fraction) for each in range(greatest)]
    size = g.gather(g.const(torch.tensor([*sizes, math.inf], dtype=torch.float64)), exponents, 0)
    number = g.op("Mul", g.op("Add", g.gather(firsts, exponents, 0), rest), size)
    is_nan = g.greater(low, g.const(greatest << fraction, torch.int64))
    number = shaped(g.where(is_nan, g.const(math.nan, torch.float64), number), bits.shape)
    return g.cast(with_sign(g, number, g.not_equal(low, bits)), dtype)
