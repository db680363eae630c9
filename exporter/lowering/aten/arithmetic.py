"""Arithmetic on two tensors, or on a tensor and a number: add, sub, mul, div and what derives from them."""

from __future__ import annotations

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.registry import lowering
from onnx_parity.exporter.lowering.values.value import Operand, Value


def _scaled(g: Graph, x: Value, alpha: float) -> Value:
    return x if alpha == 1 else g.op("Mul", x, alpha)


@lowering("aten::add")
def add(g: Graph, self: Operand, other: Operand, alpha: float = 1) -> Value:
    # A float would keep -0.0, of which the sum is 0.0.
    adds_nothing = isinstance(other, (int, float)) and other == 0 and not g.out.dtype.is_floating_point
    if adds_nothing and isinstance(self, Value) and self.dtype is g.out.dtype:
        return self
    a, b = g.promote(self, other, dtype=g.out.dtype)
    if a.dtype is torch.bool:
        return g.op("Or", a, b) if alpha else a
    return g.op("Add", a, _scaled(g, b, alpha))


@lowering("aten::sub")
def sub(g: Graph, self: Operand, other: Operand, alpha: float = 1) -> Value:
    a, b = g.promote(self, other, dtype=g.out.dtype)
    return g.op("Sub", a, _scaled(g, b, alpha))


@lowering("aten::rsub")
def rsub(g: Graph, self: Value, other: Operand, alpha: float = 1) -> Value:
    a, b = g.promote(self, other, dtype=g.out.dtype)
    return g.op("Sub", b, _scaled(g, a, alpha))


@lowering("aten::mul")
def mul(g: Graph, self: Operand, other: Operand) -> Value:
    if isinstance(self, Value) and self.dtype is g.out.dtype and isinstance(other, (int, float)) and other == 1:
        return self
    a, b = g.promote(self, other, dtype=g.out.dtype)
    return g.op("And" if a.dtype is torch.bool else "Mul", a, b)


@lowering("aten::div")
def div(g: Graph, self: Operand, other: Operand, rounding_mode: str | None = None) -> Value:
    a, b = g.promote(self, other, dtype=g.out.dtype)
    if rounding_mode == "floor":
        return g.floor_divide_floats(a, b) if a.dtype.is_floating_point else g.floor_divide(a, b)
    if rounding_mode is None or not a.dtype.is_floating_point:
        # ONNX divides integers towards zero.
        return g.op("Div", a, b)
    if a.dtype not in (torch.bfloat16, torch.float16):
        return g.trunc(g.op("Div", a, b))
    # torch truncates the rounded quotient. onnxruntime would pass it on in the float32 that it computes halves in.
    quotient = g.cast(g.op("Div", g.cast(a, torch.float32), g.cast(b, torch.float32)), a.dtype)
    return g.cast(g.trunc(g.cast(quotient, torch.float32)), a.dtype)


@lowering("aten::floor_divide")
def floor_divide(g: Graph, self: Operand, other: Operand) -> Value:
    return div(g, self, other, "floor")


@lowering("aten::remainder")
def remainder(g: Graph, self: Operand, other: Operand) -> Value:
    return g.remainder(*g.promote(self, other, dtype=g.out.dtype))


@lowering("aten::fmod")
def fmod(g: Graph, self: Operand, other: Operand) -> Value:
    return g.fmod(*g.promote(self, other, dtype=g.out.dtype))


@lowering("aten::addcmul")
def addcmul(g: Graph, self: Value, tensor1: Value, tensor2: Value, value: float = 1) -> Value:
    x, a, b = g.promote(self, tensor1, tensor2, dtype=g.out.dtype)
    return g.op("Add", x, _scaled(g, g.op("Mul", a, b), value))


@lowering("aten::addcdiv")
def addcdiv(g: Graph, self: Value, tensor1: Value, tensor2: Value, value: float = 1) -> Value:
    x, a, b = g.promote(self, tensor1, tensor2, dtype=g.out.dtype)
    return g.op("Add", x, _scaled(g, g.op("Div", a, b), value))
