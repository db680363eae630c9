"""Arithmetic on two tensors, or on a tensor and a number: add, sub, mul, div and what derives from them."""

from __future__ import annotations

import torch

from exporter.capture.graph import Size
from exporter.lowering.builder import Graph
from exporter.lowering.registry import lowering
from exporter.lowering.values import Operand, Value


def _scaled(g: Graph, x: Value, alpha: float) -> Value:
    return x if alpha == 1 else g.op("Mul", x, alpha)


@lowering("aten::add")
def add(g: Graph, self: Value, other: Operand, alpha: float = 1) -> Value:
    a, b = g.promote(self, other, dtype=g.out.dtype)
    if a.dtype is torch.bool:
        return g.op("Or", a, b)
    return g.op("Add", a, _scaled(g, b, alpha))


@lowering("aten::sub")
def sub(g: Graph, self: Value, other: Operand, alpha: float = 1) -> Value:
    a, b = g.promote(self, other, dtype=g.out.dtype)
    return g.op("Sub", a, _scaled(g, b, alpha))


@lowering("aten::rsub")
def rsub(g: Graph, self: Value, other: Operand, alpha: float = 1) -> Value:
    a, b = g.promote(self, other, dtype=g.out.dtype)
    return g.op("Sub", b, _scaled(g, a, alpha))


@lowering("aten::mul")
def mul(g: Graph, self: Value, other: Operand) -> Value:
    a, b = g.promote(self, other, dtype=g.out.dtype)
    return g.op("And" if a.dtype is torch.bool else "Mul", a, b)


@lowering("aten::div")
def div(g: Graph, self: Value, other: Operand, rounding_mode: str | None = None) -> Value:
    a, b = g.promote(self, other, dtype=g.out.dtype)
    if rounding_mode is None:
        return g.op("Div", a, b)
    if not a.dtype.is_floating_point:
        # ONNX divides integers towards zero.
        return g.op("Div", a, b) if rounding_mode == "trunc" else g.floor_divide(a, b)
    quotient = g.op("Div", a, b)
    if rounding_mode == "floor":
        return g.op("Floor", quotient)
    return g.op("Mul", g.op("Floor", g.op("Abs", quotient)), g.sign(quotient))


@lowering("aten::addcmul")
def addcmul(g: Graph, self: Value, tensor1: Value, tensor2: Value, value: float = 1) -> Value:
    x, a, b = g.promote(self, tensor1, tensor2, dtype=g.out.dtype)
    return g.op("Add", x, _scaled(g, g.op("Mul", a, b), value))


@lowering("aten::neg")
def neg(g: Graph, self: Value) -> Value:
    if self.dtype in (torch.uint8, torch.int64) and g.opset < 13:
        return g.op("Sub", g.const(0, self.dtype), self)
    return g.op("Sub", g.const(0, self.dtype), self) if self.dtype is torch.uint8 else g.op("Neg", self)


@lowering("aten::where.self")
def where(g: Graph, condition: Value, self: Value, other: Value) -> Value:
    a, b = g.promote(self, other, dtype=g.out.dtype)
    return g.where(g.cast(condition, torch.bool), a, b)


@lowering("aten::eq", "aten::ne", "aten::lt", "aten::gt", "aten::le", "aten::ge")
def compare(g: Graph, self: Value, other: Operand) -> Value:
    a, b = g.promote(self, other)
    form = {
        "aten::eq": g.equal,
        "aten::ne": g.not_equal,
        "aten::lt": g.less,
        "aten::gt": g.greater,
        "aten::le": g.less_or_equal,
        "aten::ge": g.greater_or_equal,
    }[g.node.op._schema.name]
    return form(a, b)


@lowering("aten::fill")
def fill(g: Graph, self: Value, value: Operand) -> Value:
    return _filled(g, g.out.shape, value)


@lowering("aten::full", "aten::full_like", "aten::new_full")
def full(g: Graph, fill_value: Operand, self: Value | None = None, size: object = None, dtype: object = None) -> Value:
    return _filled(g, g.out.shape, fill_value)


@lowering("aten::zeros", "aten::zeros_like", "aten::new_zeros")
def zeros(g: Graph, self: Value | None = None, size: object = None, dtype: object = None) -> Value:
    return g.full(g.out.shape, 0, g.out.dtype)


@lowering("aten::ones", "aten::ones_like", "aten::new_ones")
def ones(g: Graph, self: Value | None = None, size: object = None, dtype: object = None) -> Value:
    return g.full(g.out.shape, 1, g.out.dtype)


@lowering("aten::empty", "aten::empty_like", "aten::new_empty", "aten::empty_strided", "aten::new_empty_strided")
def empty(
    g: Graph, self: Value | None = None, size: object = None, stride: object = None, dtype: object = None
) -> Value:
    # What lies in fresh memory means nothing: zeros are as good.
    return g.full(g.out.shape, 0, g.out.dtype)


def _filled(g: Graph, sizes: tuple[Size, ...], value: Operand) -> Value:
    if isinstance(value, Value):
        return g.expand(g.cast(value, g.out.dtype), sizes)
    return g.full(sizes, value, g.out.dtype)
