"""Products with weights of 4 bits that torch has packed for the processor that it runs on.

The order in memory is another on each kind of processor. So the weights have to be known at export: they are unpacked
by torch's own kernel, or as it packs them where it has no kernel of its own for the processor.
"""

from __future__ import annotations

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.quantization.lowering import dequantize_blocks
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor

_aten = torch.ops.aten

#: How many columns of the weight are unpacked at once.
_AT_ONCE = 512


@lowering("aten::_weight_int4pack_mm_for_cpu")
def weight_int4pack_mm_for_cpu(g: Graph, self: Value, mat2: Value, qGroupSize: int, qScaleAndZeros: Value) -> Value:
    """Of each group of a row: scale * integer + zero. The zeros are multiplied by the sums of the groups."""
    wide = torch.float32
    count = mat2.sizes[0]
    integers = _unpacked(_known(g, mat2), qGroupSize)
    groups = integers.shape[1] // qGroupSize
    numbers = g.cast(qScaleAndZeros, wide)
    scales, zeros = (shaped(g.op("Gather", numbers, g.const(place), axis_i=2), (groups, count)) for place in (0, 1))
    weight = dequantize_blocks(g, g.const(integers.T.contiguous()), scales, None, qGroupSize)
    x = g.cast(self, wide)
    product = g.op("MatMul", x, weight)
    sums = g.reduce("Sum", g.reshape(x, [self.sizes[0], groups, qGroupSize]), [2], False)
    return g.cast(g.op("Add", product, g.op("MatMul", sums, zeros)), self.dtype)


@lowering("aten::_dyn_quant_matmul_4bit")
def dyn_quant_matmul_4bit(
    g: Graph, inp: Value, packed_weights: Value, block_size: int, in_features: int, out_features: int
) -> Value:
    """The rows of the input are rounded to integers of 8 bits, with a scale and a zero point for each."""
    packed = _known(g, packed_weights)
    blocks = in_features // block_size
    sizes = [out_features * in_features // 2, out_features * blocks, out_features]
    if packed.dtype is not torch.float32 or packed.numel() not in (sum(sizes), sum(sizes[:2])):
        g.unsupported(f"its weights are packed for a kind of processor other than x86: {_INSTEAD}")
    low_first, scales, *bias = packed.split(sizes if packed.numel() == sum(sizes) else sizes[:2])
    integers = _halves(low_first.to(torch.uint8)).reshape(out_features, blocks, block_size)
    distances, scale = _rounded_rows(g, inp)
    weight = g.op("Mul", g.four_bits(integers, inp.dtype), g.const(scales.reshape(out_features, blocks, 1)))
    weight = g.transpose(g.reshape(weight, [out_features, in_features]), [1, 0])
    product = g.op("Mul", g.op("MatMul", distances, weight), scale)
    return g.op("Add", product, g.const(bias[0])) if bias else product


_INSTEAD = "give the program plain integers and their scales, as quantized_decomposed's dequantize operators take them"


def _known(g: Graph, weights: Value) -> torch.Tensor:
    packed = weights.constant
    if packed is None or isinstance(packed, FakeTensor) or packed.is_meta:
        g.unsupported(
            "it packs integers of 4 bits in an order that depends on the processor, and they are not known at export: "
            + _INSTEAD
        )
    return packed


def _unpacked(packed: torch.Tensor, group_size: int) -> torch.Tensor:
    """The integers, by the product of the unit matrix and the weight with scales of 1."""
    count, size = packed.shape[0], packed.shape[1] * 2
    plain = torch.tensor([1.0, 0.0]).expand(size // group_size, count, 2).contiguous()
    unit = torch.eye(size).split(_AT_ONCE)
    columns = [_aten._weight_int4pack_mm_for_cpu(part, packed.cpu(), group_size, plain) for part in unit]
    return torch.cat(columns).T.to(torch.int8)


def _halves(packed: torch.Tensor) -> torch.Tensor:
    """Two integers of each byte, the lower four bits first, which stand for -8 to 7."""
    return torch.stack([packed & 15, packed >> 4], -1).to(torch.int8) - 8


def _rounded_rows(g: Graph, x: Value) -> tuple[Value, Value]:
    """The distances of integers from the zero point of their row, and the scales, by which they are multiplied."""
    zero, one = g.const(0, x.dtype), g.const(1, x.dtype)
    last = [x.rank - 1]
    least = g.extreme("Min", g.reduce("Min", x, last, True), zero)
    most = g.extreme("Max", g.reduce("Max", x, last, True), zero)
    spread = g.op("Sub", most, least)
    steps = g.where(g.equal(spread, zero), one, g.op("Div", g.const(255, x.dtype), spread))
    low, high = g.op("Mul", least, steps), g.op("Mul", most, steps)
    # The end that is rounded by more keeps its place.
    from_most = g.greater(g.op("Add", g.op("Sub", low, 128), g.op("Add", high, 127)), zero)
    start = g.where(from_most, g.op("Sub", g.const(-128, x.dtype), low), g.op("Sub", g.const(127, x.dtype), high))
    start = g.elementary(
        "Round", g.extreme("Max", g.extreme("Min", start, g.const(127, x.dtype)), g.const(-128, x.dtype))
    )
    scaled = g.op("Mul", x, steps)
    # Away from zero where two integers are as near.
    down = g.op("Floor", scaled)
    is_half = g.equal(g.op("Sub", scaled, down), g.const(0.5, x.dtype))
    away = g.where(g.greater(scaled, zero), g.op("Add", down, 1), down)
    rounded = g.where(is_half, away, g.elementary("Round", scaled))
    moved = g.extreme(
        "Max", g.extreme("Min", g.op("Add", rounded, start), g.const(127, x.dtype)), g.const(-128, x.dtype)
    )
    return g.op("Sub", moved, start), g.op("Div", one, steps)
