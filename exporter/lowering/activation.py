"""Activations: elementwise functions of one tensor, softmax and gating."""

from __future__ import annotations

import math

import torch

from exporter.lowering.builder import Graph
from exporter.lowering.registry import lowering
from exporter.lowering.values import Value


@lowering("aten::relu")
def relu(g: Graph, self: Value) -> Value:
    if self.dtype.is_floating_point or g.opset >= 14:
        return g.op("Relu", self)
    return g.clip(self, 0, None)


@lowering("aten::tanh")
def tanh(g: Graph, self: Value) -> Value:
    return g.op("Tanh", g.cast(self, g.out.dtype))


@lowering("aten::sigmoid")
def sigmoid(g: Graph, self: Value) -> Value:
    return g.op("Sigmoid", g.cast(self, g.out.dtype))


@lowering("aten::elu")
def elu(g: Graph, self: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    """scale * (x if x > 0 else alpha * (exp(input_scale * x) - 1))"""
    if input_scale == 1:
        y = g.op("Elu", self, alpha_f=alpha)
        return y if scale == 1 else g.op("Mul", y, scale)
    positive = g.op("Relu", self)
    negative = g.op("Elu", g.op("Mul", g.op("Sub", self, positive), input_scale), alpha_f=alpha)
    y = g.op("Add", positive, negative)
    return y if scale == 1 else g.op("Mul", y, scale)


@lowering("aten::leaky_relu")
def leaky_relu(g: Graph, self: Value, negative_slope: float = 0.01) -> Value:
    return g.op("LeakyRelu", self, alpha_f=negative_slope)


@lowering("aten::_prelu_kernel")
def prelu(g: Graph, self: Value, weight: Value) -> Value:
    # torch has already given the weight the rank of the input.
    return g.op("PRelu", self, weight)


@lowering("aten::threshold")
def threshold(g: Graph, self: Value, threshold: float, value: float) -> Value:
    """x if x > threshold else value; NaN stays"""
    if threshold == 0 and value == 0 and self.dtype.is_floating_point:
        return g.op("Relu", self)
    bound, fallback = g.const(threshold, self.dtype), g.const(value, self.dtype)
    below = g.less_or_equal(self, bound)
    if g.opset < 9:
        # Keep infinities away from the arithmetic that stands for Where: below the bound x does not matter.
        return g.where(below, fallback, g.extreme("Max", self, bound))
    return g.where(below, fallback, self)


@lowering("aten::glu")
def glu(g: Graph, self: Value, dim: int = -1) -> Value:
    half = self.sizes[dim] // 2
    a, b = g.split(self, dim % self.rank, [half, half])
    return g.op("Mul", a, g.op("Sigmoid", b))


@lowering("aten::_softmax")
def softmax(g: Graph, self: Value, dim: int, half_to_float: bool = False) -> Value:
    return g.softmax(g.cast(self, g.out.dtype), dim % max(self.rank, 1))


@lowering("aten::_log_softmax")
def log_softmax(g: Graph, self: Value, dim: int, half_to_float: bool = False) -> Value:
    return g.softmax(g.cast(self, g.out.dtype), dim % max(self.rank, 1), log=True)


@lowering("aten::hardtanh")
def hardtanh(g: Graph, self: Value, min_val: float = -1, max_val: float = 1) -> Value:
    return g.clip(self, min_val, max_val)


@lowering("aten::gelu")
def gelu(g: Graph, self: Value, approximate: str = "none") -> Value:
    """x * cdf(x): ONNX has it as one operator from opset 20"""
    if g.opset >= 20:
        return g.op("Gelu", self, approximate_s=approximate)
    if approximate == "tanh":
        cube = g.op("Mul", g.op("Mul", self, self), self)
        inner = g.op("Mul", g.op("Add", self, g.op("Mul", cube, 0.044715)), math.sqrt(2 / math.pi))
        return g.op("Mul", g.op("Mul", self, 0.5), g.op("Add", g.op("Tanh", inner), 1.0))
    cdf = g.op("Add", g.op("Erf", g.op("Mul", self, math.sqrt(0.5))), 1.0)
    return g.op("Mul", g.op("Mul", self, cdf), 0.5)


@lowering("aten::silu")
def silu(g: Graph, self: Value) -> Value:
    return g.op("Mul", self, g.op("Sigmoid", self))


@lowering(
    "aten::sqrt", "aten::exp", "aten::log", "aten::abs", "aten::floor", "aten::ceil", "aten::reciprocal", "aten::erf"
)
def elementwise(g: Graph, self: Value) -> Value:
    name = g.node.op._schema.name.partition("::")[2]
    rounds = name in ("floor", "ceil") and not self.dtype.is_floating_point
    return self if rounds else g.op(name.capitalize(), g.cast(self, g.out.dtype))


@lowering("aten::rsqrt")
def rsqrt(g: Graph, self: Value) -> Value:
    return g.op("Reciprocal", g.op("Sqrt", g.cast(self, g.out.dtype)))


@lowering("aten::pow.Tensor_Scalar")
def pow_scalar(g: Graph, self: Value, exponent: float) -> Value:
    base = g.cast(self, g.out.dtype)
    if exponent == 2:
        return g.op("Mul", base, base)
    return g.op("Pow", base, g.const(exponent, base.dtype))


@lowering("aten::clamp")
def clamp(g: Graph, self: Value, min: float | None = None, max: float | None = None) -> Value:
    return g.clip(g.cast(self, g.out.dtype), min, max)


@lowering("aten::logical_not", "aten::bitwise_not")
def logical_not(g: Graph, self: Value) -> Value:
    return g.op("Not", g.cast(self, torch.bool))
