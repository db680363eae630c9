"""Operators of one or two tensors that compute each element by itself."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from onnx_parity.harness.onnx_node import BROADCAST, call, definition, drawn, node

# --- signs and roundings ----------------------------------------------------------------------------------------------

absolute = node("Abs", torch.abs)
negative = node("Neg", torch.neg)
sign = node("Sign", definition(np.sign), stays_whole=True)
ceil = node("Ceil", torch.ceil)
floor = node("Floor", torch.floor)
#: Halves go to the even number in both.
round_ = node("Round", torch.round, values=(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5))

# --- powers and logarithms --------------------------------------------------------------------------------------------

sqrt = node("Sqrt", torch.sqrt, low=0.1, high=9.0)
exp = node("Exp", torch.exp)
log = node("Log", torch.log, low=0.1, high=9.0)
reciprocal = node("Reciprocal", torch.reciprocal, low=0.5, high=4.0)
erf = node("Erf", torch.erf, low=-2.0, high=2.0)

# --- trigonometry -----------------------------------------------------------------------------------------------------

sin = node("Sin", torch.sin)
cos = node("Cos", torch.cos)
tan = node("Tan", torch.tan, low=-1.2, high=1.2)
asin = node("Asin", torch.asin, low=-0.9, high=0.9)
acos = node("Acos", torch.acos, low=-0.9, high=0.9)
atan = node("Atan", torch.atan)
sinh = node("Sinh", torch.sinh)
cosh = node("Cosh", torch.cosh)
asinh = node("Asinh", torch.asinh)
acosh = node("Acosh", torch.acosh, low=1.1, high=9.0)
atanh = node("Atanh", torch.atanh, low=-0.9, high=0.9)

# --- activation functions ---------------------------------------------------------------------------------------------

relu = node("Relu", torch.relu, stays_whole=True)
elu = node("Elu", F.elu, alpha=[None, 0.5])
selu = node(
    "Selu",
    lambda x, alpha, gamma: gamma * torch.where(x > 0, x, alpha * torch.expm1(x)),
    alpha=[None, 1.5],
    gamma=[None, 0.5],
)
celu = node("Celu", F.celu, alpha=[None, 0.5])
leaky_relu = node("LeakyRelu", lambda x, alpha: F.leaky_relu(x, negative_slope=alpha), alpha=[None, 0.2])
thresholded_relu = node(
    "ThresholdedRelu",
    lambda x, alpha: torch.where(x > alpha, x, 0.0),
    values=(2.0, 2.5, 1.0, 1.5, -3.0, 0.5),
    alpha=[None, 2.0],
)
sigmoid = node("Sigmoid", torch.sigmoid)
hard_sigmoid = node(
    "HardSigmoid",
    lambda x, alpha, beta: torch.clamp(alpha * x + beta, 0.0, 1.0),
    alpha=[None, 0.5],
    beta=[None, 0.25],
)
hard_swish = node("HardSwish", F.hardswish)
tanh = node("Tanh", torch.tanh)
softplus = node("Softplus", F.softplus)
softsign = node("Softsign", F.softsign)
mish = node("Mish", F.mish)
# `1 + tanh` cancels where x is far below 0, so that the error is one of the sum, and not of the small result.
gelu = node("Gelu", F.gelu, approximate=[None, "none", "tanh"], ulps_of_largest=1)

# --- two tensors ------------------------------------------------------------------------------------------------------

add = node("Add", torch.add, shapes=BROADCAST)
sub = node("Sub", torch.sub, shapes=BROADCAST, low=1.0, high=4.0, unsigned=False)
sub_unsigned = node(
    "Sub",
    torch.sub,
    call(drawn((2, 3), 5.0, 9.0), drawn((2, 3), 0.0, 4.0)),
    call(drawn((2, 3), 5.0, 9.0), drawn((), 0.0, 4.0)),
    where=lambda types: "uint" in types["T"],
)
mul = node("Mul", torch.mul, shapes=BROADCAST)
div = node("Div", torch.div, shapes=BROADCAST, low=1.0, high=4.0, integers=False)
prelu = node(
    "PRelu", lambda x, slope: torch.where(x < 0, x * slope, x), shapes=(((2, 3), (3,)), ((1,), (1,)), ((0, 3), (3,)))
)
