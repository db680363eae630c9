"""Quantization: numbers rounded to a grid, and integers that stand for such numbers.

Quantized tensors are recorded as the floats that they stand for (`kinds/quantized.py`), so that what is left
to lower is rounding to a grid, as `fake_quantize` does it, and the integers of quantized weights.
"""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Operand, Value
from onnx_parity.exporter.registry.lowerings import lowering

#: The ranges of the integers that QuantizeLinear makes.
RANGES = {torch.uint8: (0, 255), torch.int8: (-128, 127)}


@lowering("aten::fake_quantize_per_tensor_affine_cachemask")
def fake_quantize(g: Graph, self: Value, scale: float, zero_point: int, quant_min: int, quant_max: int) -> Value:
    _refuse_mask(g)
    return _rounded(g, self, scale, zero_point, quant_min, quant_max)


@lowering("aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def fake_quantize_by_tensors(
    g: Graph, self: Value, scale: Value, zero_point: Value, fake_quant_enabled: Value, quant_min: int, quant_max: int
) -> Value:
    _refuse_mask(g)
    scale, zero_point = (g.reshape(each, []) for each in (scale, zero_point))
    rounded = _rounded(g, self, scale, zero_point, quant_min, quant_max)
    if fake_quant_enabled.filled == 1:
        return rounded
    enabled = g.cast(g.reshape(fake_quant_enabled, []), torch.bool)
    return g.where(enabled, rounded, self)


@lowering("aten::fake_quantize_per_channel_affine_cachemask")
def fake_quantize_per_channel(
    g: Graph, self: Value, scale: Value, zero_point: Value, axis: int, quant_min: int, quant_max: int
) -> Value:
    _refuse_mask(g)
    return _rounded(g, self, scale, zero_point, quant_min, quant_max, axis)


@lowering("aten::_fake_quantize_learnable_per_tensor_affine")
def fake_quantize_learnable(
    g: Graph, self: Value, scale: Value, zero_point: Value, quant_min: int, quant_max: int, grad_factor: float = 1.0
) -> Value:
    scale, zero_point = (g.reshape(each, []) for each in (scale, zero_point))
    return _rounded(g, self, scale, _nearest(g, zero_point, quant_min, quant_max), quant_min, quant_max)


@lowering("aten::_fake_quantize_learnable_per_channel_affine")
def fake_quantize_learnable_per_channel(
    g: Graph, self: Value, scale: Value, zero_point: Value, axis: int, quant_min: int, quant_max: int,
    grad_factor: float = 1.0,
) -> Value:  # fmt: skip
    return _rounded(g, self, scale, _nearest(g, zero_point, quant_min, quant_max), quant_min, quant_max, axis)


@lowering("onnx_parity::dequantize")
def dequantize(g: Graph, ints: Value, scale: Value, zero_point: Value, axis: int) -> Value:
    """scale (ints - zero_point), with one scale, or one for each slice along the axis"""
    per_channel = scale.rank > 0
    if g.has_quantization(per_channel):
        options: dict[str, Any] = {"axis_i": axis} if per_channel else {}
        result: Value = g.op("DequantizeLinear", ints, scale, zero_point, **options)
        return result
    others = [other for other in range(ints.rank) if other != axis] if per_channel else []
    scale, zero = (g.unsqueeze(g.cast(each, scale.dtype), others) for each in (scale, zero_point))
    return g.op("Mul", g.op("Sub", g.cast(ints, scale.dtype), zero), scale)


@lowering("onnx_parity::dequantize_blocks")
def dequantize_blocks(g: Graph, ints: Value, scale: Value, zero_point: Value | None, block_size: int) -> Value:
    """scale (ints - zero_point) of a matrix that is known, with one scale for each block along the first axis; if the
    size of a block is 0, for each column, or for all"""
    integers = ints.constant
    assert integers is not None
    start = None if zero_point is None else zero_point.constant
    if g.has_blocks():
        options: dict[str, Any] = {"axis_i": 0, "block_size_i": block_size} if block_size else {"axis_i": 1}
        scale = scale if scale.constant is None else g.unshared(scale.constant)
        # onnxruntime reads the wrong integers of 2 bits if the number of columns is no multiple of four:
        # findings/onnxruntime_product_with_integers_of_two_bits.
        fewest = 4 if integers.shape[1] % 4 else 2
        known, *starts = g.few_bits(*(each for each in (integers, start) if each is not None), fewest=fewest)
        # onnxruntime looks for its kernel only if there is no empty input at the end.
        result: Value = g.op("DequantizeLinear", known, scale, *starts, outputs=1, **options)
        return shaped(result, ints.sizes)
    rows, columns = ints.sizes
    sizes = [rows // block_size, block_size, columns] if block_size else [rows, columns]
    numbers = g.cast(g.const(integers.reshape(sizes)), scale.dtype)
    if start is not None:
        numbers = g.op("Sub", numbers, g.const(start.unsqueeze(-2) if block_size else start, scale.dtype))
    scaled = g.op("Mul", numbers, g.unsqueeze(scale, [1]) if block_size else scale)
    return g.reshape(scaled, [rows, columns])


@lowering("onnx_parity::quantize")
def quantize(g: Graph, x: Value, scale: Value, zero_point: Value) -> Value:
    """round(x / scale) + zero_point, within the range of the zero point's dtype"""
    if g.has_quantization(per_channel=False):
        result: Value = g.op("QuantizeLinear", x, scale, zero_point)
        return result
    integers = g.op("Add", _round(g, shaped(g.op("Div", x, scale), x.sizes)), g.cast(zero_point, x.dtype))
    return g.cast(clamped(g, integers, *RANGES[zero_point.dtype], x.sizes), zero_point.dtype)


def _rounded(
    g: Graph, x: Value, scale: Operand, zero_point: Operand, low: int, high: int, axis: int | None = None
) -> Value:
    """scale (clamp(round(x / scale) + zero_point, low, high) - zero_point)

    As in torch, halves are computed as float32, and a single scale of float64 is multiplied by in float32.
    """
    if x.dtype in (torch.float16, torch.bfloat16):
        wide = shaped(g.cast(x, torch.float32), x.sizes)
        scale = g.cast(scale, torch.float32) if isinstance(scale, Value) else scale
        return g.cast(_rounded(g, wide, scale, zero_point, low, high, axis), x.dtype)
    if x.dtype is torch.float64 and axis is None:
        scale = g.cast(scale, torch.float32) if isinstance(scale, Value) else g.const(scale, torch.float32)
        rounded = g.cast(rounded_integers(g, x, scale, zero_point, low, high, axis), torch.float32)
        from_zero = g.op("Sub", rounded, beside(g, zero_point, torch.float32, x.rank, axis))
        return g.cast(g.op("Mul", from_zero, scale), torch.float64)
    whole = next((dtype for dtype, (least, most) in RANGES.items() if least <= low and high <= most), None)
    if whole is None or x.dtype is not torch.float32 or not g.has_quantization(axis is not None):
        return _rounded_by_arithmetic(g, x, scale, zero_point, low, high, axis)
    if (low, high) != RANGES[whole]:
        # Its bounds are numbers of the grid, so that x may be clamped before it is rounded.
        x = clamped_to_grid(g, x, scale, zero_point, low, high, axis)
    scales = scale if isinstance(scale, Value) else g.const(scale, torch.float32)
    zero = g.cast(zero_point, whole) if isinstance(zero_point, Value) else g.const(zero_point, whole)
    options: dict[str, Any] = {} if axis is None else {"axis_i": axis % x.rank}
    integers: Value = g.op("QuantizeLinear", x, scales, zero, **options)
    result: Value = g.op("DequantizeLinear", integers, scales, zero, **options)
    return result


def clamped_to_grid(
    g: Graph, x: Value, scale: Operand, zero_point: Operand, low: int, high: int, axis: int | None
) -> Value:
    scales, zero = (beside(g, each, x.dtype, x.rank, axis) for each in (scale, zero_point))
    bounds = [g.op("Mul", g.op("Sub", g.const(bound, x.dtype), zero), scales) for bound in (low, high)]
    above = g.extreme("Max", x, bounds[0])
    return g.extreme("Min", above, bounds[1])


def _rounded_by_arithmetic(
    g: Graph, x: Value, scale: Operand, zero_point: Operand, low: int, high: int, axis: int | None
) -> Value:
    scales, zero = (beside(g, each, x.dtype, x.rank, axis) for each in (scale, zero_point))
    integers = rounded_integers(g, x, scale, zero_point, low, high, axis)
    return g.op("Mul", g.op("Sub", integers, zero), scales)


def rounded_integers(
    g: Graph, x: Value, scale: Operand, zero_point: Operand, low: int, high: int, axis: int | None
) -> Value:
    """clamp(round(x / scale) + zero_point, low, high), in x's dtype"""
    scales, zero = (beside(g, each, x.dtype, x.rank, axis) for each in (scale, zero_point))
    integers = g.op("Add", _round(g, g.op("Div", x, scales)), zero)
    return clamped(g, integers, low, high, x.sizes)


def beside(g: Graph, number: Operand, dtype: torch.dtype, rank: int, axis: int | None) -> Value:
    """A scale or a zero point as a tensor of a dtype that broadcasts with one of this many axes."""
    if not isinstance(number, Value):
        return g.const(number, dtype)
    tensor = g.cast(number, dtype)
    others = [] if axis is None else [other for other in range(rank) if other != axis % rank]
    return g.unsqueeze(tensor, others) if others else tensor


def _nearest(g: Graph, zero_point: Value, low: int, high: int) -> Value:
    """A zero point that is learned, and thus a float, as an integer of the range."""
    return clamped(g, _round(g, zero_point), low, high, zero_point.sizes)


def clamped(g: Graph, integers: Value, low: int, high: int, sizes: Any) -> Value:
    above = g.extreme("Max", integers, g.const(low, integers.dtype))
    return g.extreme("Min", above, g.const(high, integers.dtype))


def _round(g: Graph, x: Value) -> Value:
    return g.elementary("Round", x)


def _refuse_mask(g: Graph) -> None:
    if g.is_used(1):
        g.unsupported("the program uses the mask that fake_quantize keeps for gradients: use the first result only")
