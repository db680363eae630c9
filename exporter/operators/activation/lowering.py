"""Activation functions: relu and its variants, exponential and piecewise linear ones, softmax."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.elementwise.lowering import pow_
from onnx_parity.exporter.recording.fakes.metadata import are_contiguous
from onnx_parity.exporter.recording.fakes.pointwise import floats, numbers, pointwise
from onnx_parity.exporter.registry.in_place import DYNAMIC_HALVES, FLOATS, FLOATS_AND_DYNAMIC, copy_back
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.results import Contiguous, result_of

# --- two slopes -------------------------------------------------------------------------------------------------------


@lowering("aten::relu")
def relu(g: Graph, self: Value) -> Value:
    return g.op("Relu", self) if g.has_kernel("Relu", self.dtype) else g.clip(self, 0, None)


def _sloped(g: Graph, x: Value, slope: Value) -> Value:
    """x where x > 0, else slope * x"""
    return g.where(g.greater(x, g.const(0, x.dtype)), x, g.op("Mul", slope, x))


@lowering("aten::leaky_relu")
def leaky_relu(g: Graph, self: Value, negative_slope: float = 0.01) -> Value:
    if g.has_kernel("LeakyRelu", self.dtype):
        return g.op("LeakyRelu", self, alpha_f=negative_slope)
    return _sloped(g, self, g.const(negative_slope, self.dtype))


@lowering("aten::_prelu_kernel")
def prelu(g: Graph, self: Value, weight: Value) -> Value:
    # torch has reshaped the weight to the rank of the input.
    return g.op("PRelu", self, weight) if g.has_kernel("PRelu", self.dtype) else _sloped(g, self, weight)


@lowering("aten::rrelu_with_noise", "aten::rrelu_with_noise_functional")
def rrelu(
    g: Graph, self: Value, noise: Value, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> tuple[Value, Value] | Value:
    """leaky_relu whose slope is random for each element in training, and the mean of its bounds otherwise"""
    if not training:
        return leaky_relu(g, self, (lower + upper) / 2)
    drawn = g.cast(g.uniform(g.out.shape, torch.float32), self.dtype)
    slope = g.op("Add", g.op("Mul", drawn, upper - lower), lower)
    positive = g.greater(self, g.const(0, self.dtype))
    return _sloped(g, self, slope), g.where(positive, g.const(1, self.dtype), slope)


# --- exponential ------------------------------------------------------------------------------------------------------


@lowering("aten::elu")
def elu(g: Graph, self: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    """scale * (x if x > 0 else alpha * (exp(input_scale * x) - 1))"""
    if input_scale == 1 and g.has_kernel("Elu", self.dtype):
        if scale == 1:
            return g.op("Elu", self, alpha_f=alpha)
        return g.op("Selu", self, alpha_f=alpha, gamma_f=scale)
    (x,) = g.promote_exactly(self, dtype=self.dtype, factors=[alpha, scale, input_scale])
    negative = g.extreme("Min", x, g.const(0, x.dtype))
    curved = g.exp_minus_one(g.op("Mul", negative, input_scale))
    y = g.op("Add", g.op("Relu", x), g.op("Mul", curved, alpha))
    return g.cast(y if scale == 1 else g.op("Mul", y, scale), self.dtype)


@lowering("aten::celu")
def celu(g: Graph, self: Value, alpha: float = 1) -> Value:
    if g.has_kernel("Celu", self.dtype):
        return g.op("Celu", self, alpha_f=alpha)
    return elu(g, self, alpha, 1, 1 / alpha)


@lowering("aten::softplus")
def softplus(g: Graph, self: Value, beta: float = 1, threshold: float = 20) -> Value:
    """log(1 + exp(beta * x)) / beta, and x where beta * x > threshold"""
    highest = math.log(torch.finfo(torch.float64 if self.dtype is torch.float64 else torch.float32).max)
    (x,) = g.promote_exactly(self, dtype=self.dtype, factors=[beta, *[threshold] * (threshold > highest)])
    scaled = x if beta == 1 else g.op("Mul", x, beta)
    y = g.softplus(scaled)
    if threshold > highest:
        # torch's exponential is infinite there.
        y = g.where(g.greater(scaled, g.const(highest, x.dtype)), g.const(math.inf, x.dtype), y)
    y = y if beta == 1 else g.op("Div", y, beta)
    # From this threshold on, both formulas round to the same number.
    if highest >= threshold >= -math.log(torch.finfo(self.dtype).eps):
        return g.cast(y, self.dtype)
    return g.cast(g.where(g.greater(scaled, g.const(threshold, x.dtype)), x, y), self.dtype)


@lowering("aten::log_sigmoid_forward")
def log_sigmoid(g: Graph, self: Value) -> Value:
    """-log(1 + exp(-x)), or 0.0 where the logarithm is 0, as in torch"""
    x = g.accumulating(self)
    return g.cast(g.op("Sub", g.const(0, x.dtype), g.softplus(g.op("Neg", x))), self.dtype)


@lowering("aten::mish")
def mish(g: Graph, self: Value) -> Value:
    return g.op("Mul", self, g.op("Tanh", g.softplus(self)))


@lowering("aten::gelu")
def gelu(g: Graph, self: Value, approximate: str = "none") -> Value:
    """x * cdf(x) of the normal distribution, or with approximate="tanh" its approximation"""
    if approximate == "none":
        return g.elementary("Gelu", self)
    if g.has_kernel("Gelu", self.dtype):
        return g.op("Gelu", self, approximate_s=approximate)
    # With Pow, as many models write it, onnxruntime fuses it. It refuses what it makes of a tensor without axes, and
    # takes a product away that others use too, so this one is not that of x * 0.5.
    cube = pow_(g, self, 3) if self.rank else g.op("Mul", g.op("Mul", self, self), self)
    inner = g.op("Mul", g.op("Add", self, g.op("Mul", cube, 0.044715)), math.sqrt(2 / math.pi))
    return g.op("Mul", g.op("Mul", 0.5, self), g.op("Add", g.op("Tanh", inner), 1.0))


@lowering("aten::silu")
def silu(g: Graph, self: Value) -> Value:
    # Not as the Swish of opset 24: onnxruntime 1.31 takes 6.7 ms for 262,144 float32 numbers, and 0.8 to 1.4 ms for
    # these two, which it fuses. It has no kernel for it from opset 25 on.
    return g.op("Mul", self, g.op("Sigmoid", self))


@lowering("aten::glu")
def glu(g: Graph, self: Value, dim: int = -1) -> Value:
    half = self.sizes[dim] // 2
    a, b = g.split(self, dim % self.rank, [half, half])
    return g.op("Mul", a, g.op("Sigmoid", b))


# --- piecewise linear -------------------------------------------------------------------------------------------------


@lowering("aten::threshold")
def threshold(g: Graph, self: Value, threshold: float, value: float) -> Value:
    """x if x > threshold else value; NaN stays"""
    if threshold == 0 and value == 0:
        return relu(g, self)
    x = g.accumulating(self)
    below = g.less_or_equal(x, g.const(threshold, x.dtype))
    return g.where(below, g.const(value, self.dtype), self)


@lowering("aten::hardtanh")
def hardtanh(g: Graph, self: Value, min_val: float = -1, max_val: float = 1) -> Value:
    return g.clip(self, min_val, max_val)


@lowering("aten::hardsigmoid")
def hardsigmoid(g: Graph, self: Value) -> Value:
    """x / 6 + 1 / 2, between 0 and 1"""
    if g.has_kernel("HardSigmoid", self.dtype):
        return g.op("HardSigmoid", self, alpha_f=1 / 6, beta_f=0.5)
    return g.clip(g.op("Add", g.op("Div", self, 6), 0.5), 0, 1)


@lowering("aten::hardswish")
def hardswish(g: Graph, self: Value) -> Value:
    """x hardsigmoid(x)"""
    # onnxruntime has no kernel: it takes ONNX's definition, which it can only compute for floats of 32 bits.
    if self.dtype is torch.float32 and g.has_kernel("HardSwish", self.dtype):
        return g.op("HardSwish", self)
    return g.op("Mul", self, hardsigmoid(g, self))


@lowering("aten::softshrink")
def softshrink(g: Graph, self: Value, lambd: float = 0.5) -> Value:
    """x - lambd, x + lambd, or 0 where |x| <= lambd"""
    x = g.accumulating(self)
    return g.cast(g.op("Sub", x, g.clip(x, -lambd, lambd)), self.dtype)


@lowering("aten::hardshrink")
def hardshrink(g: Graph, self: Value, lambd: float = 0.5) -> Value:
    """0 where |x| <= lambd; NaN stays"""
    small = g.less_or_equal(g.op("Abs", self), g.const(lambd, self.dtype))
    return g.where(small, g.const(0, self.dtype), self)


# --- over an axis -----------------------------------------------------------------------------------------------------


@lowering("aten::_softmax")
def softmax(g: Graph, self: Value, dim: int, half_to_float: bool = False) -> Value:
    return g.softmax(g.cast(self, g.out.dtype), dim % max(self.rank, 1))


@lowering("aten::_log_softmax")
def log_softmax(g: Graph, self: Value, dim: int, half_to_float: bool = False) -> Value:
    return g.softmax(g.cast(self, g.out.dtype), dim % max(self.rank, 1), log=True)


copy_back("celu_", "elu_", "leaky_relu_", "mish_", "selu_", to=FLOATS)
copy_back("hardsigmoid_", "hardswish_", "hardtanh_", "threshold_", to=FLOATS_AND_DYNAMIC)
copy_back("gelu_", to=DYNAMIC_HALVES)
# --- results ----------------------------------------------------------------------------------------------------------

pointwise(floats, "_prelu_kernel celu elu hardsigmoid hardswish hardtanh leaky_relu mish silu softplus threshold")
pointwise(numbers, "relu")


@result_of("aten::gelu", why="torch's fake kernel imports sympy, and takes 0.6 ms for each call with dynamic sizes")
def gelu_result(self: torch.Tensor, *, approximate: str = "none") -> Any:
    return floats(self) if approximate in ("none", "tanh") else NotImplemented


@result_of(
    "aten::_softmax",
    "aten::softmax.int",
    why="torch's fake kernel imports sympy, and takes 5 ms for each call with dynamic sizes",
)
def softmax_result(self: torch.Tensor, dim: int, dtype: torch.dtype | bool | None = None) -> Any:
    # The last argument is a dtype, or whether halves become floats.
    is_plain = not dtype and self.dtype.is_floating_point and -self.ndim <= dim < self.ndim and are_contiguous(self)
    return Contiguous(self.dtype, tuple(self.shape)) if is_plain else NotImplemented


_LIES_IN_ORDER = "torch's fake kernel keeps how a tensor lies in memory, and the result of the kernel lies in order"


@result_of("aten::log_sigmoid_forward", why=_LIES_IN_ORDER)
def log_sigmoid_results(self: torch.Tensor) -> Any:
    return self.new_empty(self.shape), self.new_empty(self.shape)


@result_of("aten::rrelu_with_noise_functional", why=_LIES_IN_ORDER)
def rrelu_results(self: torch.Tensor, noise: torch.Tensor, *_: Any, **__: Any) -> Any:
    return self.new_empty(self.shape), torch.empty_like(noise)
