"""What PT2E and torchao leave: `quantized_decomposed`, where integers are tensors of their own, and their products.

Integers of eight bits are made by QuantizeLinear and read by DequantizeLinear. A grid of fewer bits is kept in them, as
in torch. Other integers, and zero points that are not known to be such integers, are computed with, and so are the
weights of layers whose inputs are not quantized: see `graph/quantized_weights.py`. Weights stay integers.
"""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Operand, Value
from onnx_parity.exporter.operators.quantization.lowering import (
    RANGES,
    beside,
    clamped_to_grid,
    dequantize,
    rounded_integers,
)
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.results import result_of
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor


@lowering("quantized_decomposed::quantize_per_tensor")
def quantize_per_tensor(
    g: Graph, input: Value, scale: Operand, zero_point: Operand, quant_min: Operand, quant_max: Operand,
    dtype: torch.dtype,
) -> Value:  # fmt: skip
    return _quantized(g, input, _number(g, scale), _number(g, zero_point), quant_min, quant_max, dtype, None)


@lowering("quantized_decomposed::quantize_per_channel")
def quantize_per_channel(
    g: Graph, input: Value, scales: Value, zero_points: Value, axis: int, quant_min: int, quant_max: int,
    dtype: torch.dtype,
) -> Value:  # fmt: skip
    return _quantized(g, input, scales, zero_points, quant_min, quant_max, dtype, axis)


@lowering("quantized_decomposed::dequantize_per_tensor")
def dequantize_per_tensor(
    g: Graph, input: Value, scale: Operand, zero_point: Operand, quant_min: Operand, quant_max: Operand,
    dtype: torch.dtype, out_dtype: torch.dtype | None = None,
) -> Value:  # fmt: skip
    return _dequantized(g, input, _number(g, scale), _number(g, zero_point), out_dtype or torch.float32, None)


@lowering("quantized_decomposed::dequantize_per_channel")
def dequantize_per_channel(
    g: Graph, input: Value, scales: Value, zero_points: Value | None, axis: int, quant_min: int, quant_max: int,
    dtype: torch.dtype, out_dtype: torch.dtype | None = None,
) -> Value:  # fmt: skip
    zero = 0 if zero_points is None else zero_points
    weight = _of_four_bits(g, input, quant_min, quant_max)
    return _dequantized(g, input, scales, zero, out_dtype or torch.float32, axis, weight)


@lowering("quantized_decomposed::dequantize_per_channel_group")
def dequantize_per_channel_group(
    g: Graph, input: Value, scales: Value, zero_points: Value | None, quant_min: int, quant_max: int,
    dtype: torch.dtype, group_size: int, output_dtype: torch.dtype,
) -> Value:  # fmt: skip
    """One scale for each group of a row, and so for each row of the groups"""
    rows, size = input.sizes
    if isinstance(size, int) and group_size > size and scales.sizes[-1] == 1:
        group_size = size
    count = rows * (size // group_size)
    groups = g.reshape(input, [count, group_size])
    zero = 0 if zero_points is None else g.reshape(zero_points, [count])
    weight = _of_four_bits(g, input, quant_min, quant_max)
    result = _dequantized(g, groups, g.reshape(scales, [count]), zero, output_dtype, 0, weight)
    return g.reshape(result, input.sizes)


@lowering("aten::_weight_int8pack_mm")
def weight_int8pack_mm(g: Graph, self: Value, mat2: Value, scales: Value) -> Value:
    """The rows of the weight have a scale each"""
    wide = torch.float32
    product = g.op("MatMul", g.cast(self, wide), g.transpose(g.cast(mat2, wide), [1, 0]))
    return g.cast(g.op("Mul", product, g.cast(scales, wide)), self.dtype)


@lowering("aten::_int_mm")
def int_mm(g: Graph, self: Value, mat2: Value) -> Value:
    # Over an axis without elements, onnxruntime's MatMulInteger leaves its result as it was in memory.
    has_elements = any(isinstance(size, int) and size > 0 for size in (self.sizes[-1], mat2.sizes[-2]))
    if has_elements and g.has_quantization(per_channel=False):
        result: Value = g.op("MatMulInteger", self, mat2)
        return result
    return g.op("MatMul", g.cast(self, torch.int32), g.cast(mat2, torch.int32))


@result_of(
    "quantized_decomposed::quantize_per_tensor",
    "quantized_decomposed::quantize_per_tensor.tensor",
    "quantized_decomposed::quantize_per_tensor.tensor2",
    "quantized_decomposed::quantize_per_channel",
    why="torch's fake kernel reads the strides of halves as plain numbers",
    static=False,
)
def quantized(input: torch.Tensor, *grid: Any, dtype: torch.dtype | None = None, **named: object) -> Any:
    is_half = input.dtype in (torch.float16, torch.bfloat16)
    return torch.empty_like(input, dtype=dtype or grid[-1]) if is_half else NotImplemented


def _number(g: Graph, given: Operand) -> Operand:
    """A scale or a zero point without axes."""
    return g.reshape(given, []) if isinstance(given, Value) else given


def _quantized(
    g: Graph, x: Value, scale: Operand, zero_point: Operand, least: Operand, most: Operand, dtype: torch.dtype,
    axis: int | None,
) -> Value:  # fmt: skip
    """round(x / scale) + zero_point, from the least to the most"""
    low, high = _bound(g, least), _bound(g, most)
    if x.dtype in (torch.float16, torch.bfloat16):
        x = g.cast(x, torch.float32)
    zero = _integers(g, zero_point, dtype)
    if zero is None or x.dtype is not torch.float32 or not g.has_quantization(axis is not None):
        integers = rounded_integers(g, x, scale, zero_point, low, high, axis)
        return g.cast(integers, dtype)
    if (low, high) != RANGES[dtype]:
        x = clamped_to_grid(g, x, scale, zero_point, low, high, axis)
    scales = g.cast(scale, torch.float32) if isinstance(scale, Value) else g.const(scale, torch.float32)
    options: dict[str, Any] = {} if axis is None else {"axis_i": axis % x.rank}
    result: Value = g.op("QuantizeLinear", x, scales, zero, **options)
    return result


def _dequantized(
    g: Graph, ints: Value, scale: Operand, zero_point: Operand, dtype: torch.dtype, axis: int | None,
    four_bits: torch.Tensor | None = None,
) -> Value:  # fmt: skip
    """scale (ints - zero_point)"""
    zero = _integers(g, zero_point, ints.dtype)
    is_weight = g.node.arguments["input"].constant is not None
    if g.node.outputs[0] in g.lone_weights or (not is_weight and not g.has_quantization(axis is not None)):
        zero = None
    scales = scale if isinstance(scale, Value) else g.const(scale, dtype)
    if zero is not None and dtype is torch.float32 and scales.dtype is torch.float32:
        if axis is not None and zero.rank == 0:
            zero = g.expand(zero, scales.sizes)
        return dequantize(g, ints, scales, zero, 0 if axis is None else axis % ints.rank)
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    number, start = (beside(g, each, wide, ints.rank, axis) for each in (scales, zero_point))
    numbers = g.cast(ints, wide) if four_bits is None else g.four_bits(four_bits.reshape(ints.sizes), wide)
    return g.cast(g.op("Mul", g.op("Sub", numbers, start), number), dtype)


def _of_four_bits(g: Graph, weight: Value, least: int, most: int) -> torch.Tensor | None:
    """The integers of a weight that are of 4 bits, if the opset has such integers."""
    if 4 not in g.widths_of_integers() or (least, most, weight.dtype) not in (
        (-8, 7, torch.int8),
        (0, 15, torch.uint8),
    ):
        return None
    integers = weight.constant
    if integers is None or isinstance(integers, FakeTensor) or not least <= integers.min() <= integers.max() <= most:
        return None
    return integers


def _bound(g: Graph, number: Operand) -> int:
    """The least or the greatest integer of a grid."""
    known = number.constant if isinstance(number, Value) else torch.tensor(number)
    if known is None:
        g.unsupported("the bounds of its integers depend on values: give numbers")
    return int(known.item())


def _integers(g: Graph, zero_point: Operand, dtype: torch.dtype) -> Value | None:
    """The zero point as an integer of a dtype that QuantizeLinear has, if it is known to be one."""
    if dtype not in RANGES:
        return None
    known = zero_point.constant if isinstance(zero_point, Value) else torch.tensor(zero_point)
    if known is None or known.dtype.is_floating_point or known.numel() == 0:
        return None
    low, high = RANGES[dtype]
    if int(known.min()) < low or int(known.max()) > high:
        return None
    return g.cast(zero_point, dtype) if isinstance(zero_point, Value) else g.const(zero_point, dtype)
