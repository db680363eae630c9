"""Linear and cubic interpolation of images of torch.uint8, with and without antialiasing, to the last bit.

torch does not interpolate bytes in floating point: along each axis, the last one first, it adds multiples of elements,
by integer weights that have a power of two as their common divisor, and rounds to a byte. All of these numbers are
computed here in floating point, in a dtype that holds them exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.resize.resize_axes import (
    Axis,
    Source,
    covering_weights,
    known_weights,
    mixed,
    weighted_sum,
)

__all__ = ["interpolated_bytes"]

#: The weights are integers of 16 bits, and have at most so many bits behind the point.
_WEIGHT_LIMIT, _MOST_BITS = 2**15, 22
#: Up to so many elements are gathered for each one of the result; more are one product of matrices.
_MOST_GATHERED = 4


def interpolated_bytes(g: Graph, x: Value, axes: Sequence[Axis], mode: str, corners: bool, antialias: bool) -> Value:
    """`mode` is "linear" or "cubic". An axis whose size stays the same is left as it is, whatever its factor."""
    result = g.cast(x, torch.float32)
    for axis in reversed(axes):
        is_known = isinstance(axis.before, int) and isinstance(axis.after, int)
        if is_known and axis.before == axis.after:
            continue
        if is_known:
            rounded = _of_known_sizes(g, result, axis, known_weights(axis, mode, corners, antialias))
        elif antialias:
            rounded = _of_dynamic_coverings(g, result, axis, mode, corners)
        else:
            rounded = _of_dynamic_sizes(g, result, axis, mode, corners)
        result = g.clip(rounded, 0, 255)
    return g.cast(result, torch.uint8)


# --- sizes that are known ---------------------------------------------------------------------------------------------


def _bits(largest: float) -> int:
    """How many bits behind the point the weights have: as many as the largest one allows."""
    for bits in range(_MOST_BITS):
        if int(0.5 + largest * 2 ** (bits + 1)) >= _WEIGHT_LIMIT:
            return bits
    return _MOST_BITS


def _of_known_sizes(g: Graph, x: Value, axis: Axis, weights: torch.Tensor) -> Value:
    bits = _bits(weights.max().item())
    scaled = weights * 2**bits
    whole = (scaled + torch.where(scaled < 0, -0.5, 0.5)).trunc()
    half = 2.0 ** (bits - 1)
    is_short = whole.abs().sum(0).max().item() * 255 + half < 2**24
    exact = x if is_short else g.cast(x, torch.float64)
    first = (whole != 0).to(torch.int64).argmax(0)
    last = whole.shape[0] - 1 - (whole != 0).flip(0).to(torch.int64).argmax(0)
    count = int((last - first).max()) + 1
    if count > _MOST_GATHERED:
        total = mixed(g, exact, axis, whole)
    else:
        padded = torch.cat([whole, whole.new_zeros(count, whole.shape[1])])
        taps = []
        for offset in range(count):
            weight = padded.gather(0, (first + offset).unsqueeze(0))[0]
            taps.append((g.const((first + offset).clamp(max=whole.shape[0] - 1)), g.const(weight.to(exact.dtype))))
        total = weighted_sum(g, exact, axis, taps)
    rounded = g.op("Floor", g.op("Mul", g.op("Add", total, half), 2.0**-bits))
    return rounded if is_short else g.cast(rounded, torch.float32)


# --- sizes that are known at run time ---------------------------------------------------------------------------------


class _SourceUnlessSame(Source):
    """Without the factor where the size stays the same, because torch leaves such an axis as it is."""

    def ratio(self, corners: bool) -> Value:
        ratio = super().ratio(corners)
        if corners or self.axis.factor is None:
            return ratio
        g = self.g
        stays = g.equal(g.scalar(self.axis.before, torch.int64), g.scalar(self.axis.after, torch.int64))
        return g.where(stays, g.const(1.0, torch.float64), ratio)


def _of_dynamic_sizes(g: Graph, x: Value, axis: Axis, mode: str, corners: bool) -> Value:
    source = _SourceUnlessSame(g, axis, torch.float64)
    taps = _without_repetition(g, source.linear(corners) if mode == "linear" else source.cubic(corners))
    largest = taps[0][1]
    for _, weight in taps[1:]:
        largest = g.extreme("Max", largest, weight)
    largest = g.reduce("Max", shaped(largest, (axis.after,)), [0], True)
    # As `_bits` finds them: the largest weight is at least one half.
    is_whole = g.greater(largest, g.const(1 - 2.0**-16 - 2.0**-40, torch.float64))
    divisor = g.where(is_whole, g.const(2.0**14, torch.float64), g.const(2.0**15, torch.float64))
    whole = []
    for index, weight in taps:
        scaled = shaped(g.op("Mul", weight, divisor), (axis.after,))
        rounded = g.op("Mul", g.sign(scaled), g.op("Floor", g.op("Add", g.op("Abs", scaled), 0.5)))
        whole.append((index, g.cast(rounded, torch.float32)))
    divisor = g.cast(divisor, torch.float32)
    total = g.op("Add", weighted_sum(g, x, axis, whole), g.op("Mul", divisor, 0.5))
    return g.op("Floor", g.op("Div", total, divisor))


def _of_dynamic_coverings(g: Graph, x: Value, axis: Axis, mode: str, corners: bool) -> Value:
    weights = covering_weights(g, _SourceUnlessSame(g, axis, torch.float64), mode, corners)
    largest = g.reduce("Max", weights, [0, 1], True)
    # As `_bits` finds them: each bit counts up to which the largest weight is within the limit.
    powers = g.const(2.0 ** torch.arange(1, _MOST_BITS + 1, dtype=torch.float64))
    scaled = g.op("Floor", g.op("Add", g.op("Mul", largest, powers), 0.5))
    fits = g.less(scaled, g.const(_WEIGHT_LIMIT, torch.float64))
    reached = g.where(fits, powers, g.const(1.0, torch.float64))
    divisor = g.reduce("Max", reached, [0, 1], False)
    scaled = g.op("Mul", weights, divisor)
    whole = g.op("Mul", g.sign(scaled), g.op("Floor", g.op("Add", g.op("Abs", scaled), 0.5)))
    total = mixed(g, g.cast(x, torch.float64), axis, whole)
    return g.cast(g.op("Floor", g.op("Div", g.op("Add", total, g.op("Mul", divisor, 0.5)), divisor)), torch.float32)


def _without_repetition(g: Graph, taps: Sequence[tuple[Value, Value]]) -> list[tuple[Value, Value]]:
    """The weights of one element added up, as they are before torch rounds them; it is repeated at the borders."""
    zero = g.const(0.0, torch.float64)
    totals = [weight for _, weight in taps]
    for later in range(1, len(taps)):
        for earlier in range(later):
            is_same = shaped(g.equal(taps[earlier][0], taps[later][0]), taps[later][0].shape)
            totals[earlier] = g.op("Add", totals[earlier], g.where(is_same, totals[later], zero))
            totals[later] = g.where(is_same, zero, totals[later])
    return [(index, total) for (index, _), total in zip(taps, totals, strict=True)]
