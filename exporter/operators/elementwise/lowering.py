"""Elementwise functions of one tensor: roots, exponentials, trigonometry, rounding, signs; and powers."""

from __future__ import annotations

import math

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Operand, Value
from onnx_parity.exporter.operators.arithmetic.elementwise_binary import sign_bit
from onnx_parity.exporter.recording.fakes.pointwise import floats, numbers, pointwise
from onnx_parity.exporter.registry.in_place import DYNAMIC, DYNAMIC_HALVES, FLOATS, FLOATS_AND_DYNAMIC, copy_back
from onnx_parity.exporter.registry.lowerings import lowering

#: Functions that ONNX has under the same name, and that return floats.
_FUNCTIONS = {
    f"aten::{name}": name.capitalize()
    for name in (
        "sqrt", "exp", "log", "reciprocal", "erf", "sigmoid", "tanh", "sin", "cos", "tan", "asin", "acos", "atan",
        "sinh", "cosh", "asinh", "acosh", "atanh",
    )
}  # fmt: skip
#: Functions that return integers unchanged.
_ROUNDINGS = {"aten::ceil": "Ceil", "aten::floor": "Floor", "aten::round": "Round"}


@lowering(*_FUNCTIONS)
def function(g: Graph, self: Value) -> Value:
    return g.elementary(_FUNCTIONS[g.operator], g.cast(self, g.out.dtype))


@lowering(*_ROUNDINGS)
def rounding(g: Graph, self: Value) -> Value:
    return g.elementary(_ROUNDINGS[g.operator], self) if self.dtype.is_floating_point else self


@lowering("aten::round.decimals")
def round_decimals(g: Graph, self: Value, decimals: int) -> Value:
    if not self.dtype.is_floating_point:
        return self
    factor = 10.0 ** abs(decimals)
    up, down = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return g.op(down, g.elementary("Round", g.op(up, self, factor)), factor)


@lowering("aten::trunc")
def trunc(g: Graph, self: Value) -> Value:
    return g.trunc(self) if self.dtype.is_floating_point else self


@lowering("aten::frac")
def frac(g: Graph, self: Value) -> Value:
    return g.op("Sub", self, g.trunc(self))


@lowering("aten::rsqrt")
def rsqrt(g: Graph, self: Value) -> Value:
    # As a quotient onnxruntime finds it in a norm by the root mean square, and not as Reciprocal.
    dtype = g.out.dtype
    return g.op("Div", g.const(1, dtype), g.op("Sqrt", g.cast(self, dtype)))


@lowering("aten::expm1")
def expm1(g: Graph, self: Value) -> Value:
    return g.exp_minus_one(g.cast(self, g.out.dtype))


@lowering("aten::log1p")
def log1p(g: Graph, self: Value) -> Value:
    return g.log_of_one_plus(g.cast(self, g.out.dtype))


@lowering("aten::log2", "aten::log10")
def log_of_base(g: Graph, self: Value) -> Value:
    base = 2 if g.operator == "aten::log2" else 10
    return g.op("Div", g.op("Log", g.cast(self, g.out.dtype)), math.log(base))


@lowering("aten::exp2")
def exp2(g: Graph, self: Value) -> Value:
    x = g.cast(self, g.out.dtype)
    return g.op("Pow", g.const(2, x.dtype), x)


@lowering("aten::abs")
def abs_(g: Graph, self: Value) -> Value:
    return g.op("Abs", self)


@lowering("aten::neg")
def neg(g: Graph, self: Value) -> Value:
    return g.op("Neg", self)


@lowering("aten::sign", "aten::sgn")
def sign(g: Graph, self: Value) -> Value:
    """-1, 0 or 1, and 0 for NaN, for which ONNX's Sign is not specified"""
    if self.dtype is torch.bool:
        return self
    return g.sign_by_comparison(self) if self.dtype.is_floating_point else g.sign(self)


@lowering("aten::angle")
def angle(g: Graph, self: Value) -> Value:
    """pi where x < 0, else 0, and NaN for NaN"""
    x = g.cast(self, g.out.dtype)
    negative = g.op("Mul", g.cast(g.less(x, g.const(0, x.dtype)), x.dtype), math.pi)
    return g.where(g.is_nan(x), x, negative)


@lowering("aten::signbit")
def signbit(g: Graph, self: Value) -> Value:
    return sign_bit(g, self)


@lowering("aten::ldexp")
def ldexp(g: Graph, self: Value, other: Value) -> Value:
    """x * 2**n"""
    x, exponent = g.promote(self, other, dtype=g.out.dtype)
    return g.op("Mul", x, g.op("Pow", g.const(2, x.dtype), exponent))


@lowering("aten::pow")
def pow_(g: Graph, self: Operand, exponent: Operand) -> Value:
    dtype = g.out.dtype
    if isinstance(self, Value) and isinstance(exponent, (bool, int, float)):
        simple = _small_power(g, g.cast(self, dtype), exponent)
        if simple is not None:
            return simple
    base, power = g.promote(self, exponent, dtype=dtype)
    return g.op("Pow", base, power) if dtype.is_floating_point else _integer_power(g, base, power)


def _small_power(g: Graph, x: Value, exponent: float) -> Value | None:
    """Powers as a few multiplications, which are exact and, for integers, wrap around as in torch; else None.

    Squares and cubes of float32 are Pow, because onnxruntime finds norms by the root mean square and approximations of
    GELU by it. It also finds norms of float64, and then replaces their epsilon by 1e-5.
    """
    if exponent == 1:
        return x
    if exponent in (0.5, -0.5):
        # torch takes the root of numbers in float32 and float64 alone: that of -inf is NaN, and its power infinite.
        if x.dtype not in (torch.float32, torch.float64):
            return None
        root = g.op("Sqrt", x)
        return root if exponent > 0 else g.op("Reciprocal", root)
    integral = not x.dtype.is_floating_point and exponent > 0
    if exponent not in (2, 3) and not integral:
        return None
    if x.dtype is torch.float32:
        return None
    result = None
    remaining = int(exponent)
    while remaining:
        if remaining & 1:
            result = x if result is None else g.op("Mul", result, x)
        remaining >>= 1
        if remaining:
            x = g.op("Mul", x, x)
    return result


def _integer_power(g: Graph, base: Value, exponent: Value) -> Value:
    """Binary exponentiation that wraps around: runtimes compute integer powers as floats, exact below 2**53.

    Each bit of the exponent counts, because the powers of odd numbers never become 0.
    """
    b, e = (g.cast(x, torch.int64) for x in (base, exponent))
    zero, one, two = (g.const(number, torch.int64) for number in (0, 1, 2))
    # A negative power of 1 or -1 equals the positive one, and that of any other number is 0.
    fits = g.op("Or", g.greater_or_equal(e, zero), g.equal(g.op("Abs", b), one))
    e = g.op("Abs", e)
    bits = 8 * exponent.dtype.itemsize - exponent.dtype.is_signed
    result = one
    for bit in range(bits):
        half = g.op("Div", e, two)
        is_set = g.op("Sub", e, g.op("Mul", half, two))
        # b where the bit is set, 1 where not.
        factor = g.op("Add", g.op("Mul", g.op("Sub", b, one), is_set), one)
        result = g.op("Mul", result, factor)
        if bit < bits - 1:
            b, e = g.op("Mul", b, b), half
    return g.cast(g.op("Mul", result, g.cast(fits, torch.int64)), base.dtype)


copy_back("sigmoid_", to=FLOATS)
copy_back("nan_to_num_", to=FLOATS_AND_DYNAMIC)
copy_back("ldexp_", "pow_", to=DYNAMIC)
copy_back(
    "abs_", "acos_", "acosh_", "asin_", "asinh_", "atan_", "atanh_", "ceil_", "cos_", "cosh_", "deg2rad_", "erf_",
    "exp2_", "exp_", "expm1_", "floor_", "frac_", "log10_", "log1p_", "log2_", "log_", "neg_", "rad2deg_",
    "reciprocal_", "rsqrt_", "sgn_", "sign_", "sin_", "sinh_", "sqrt_", "square_", "tan_", "tanh_", "trunc_",
    to=DYNAMIC_HALVES,
)  # fmt: skip
pointwise(
    floats,
    "acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor log log10 log1p log2 "
    "pow.Tensor_Scalar pow.Tensor_Tensor reciprocal round rsqrt sigmoid sin sinh sqrt tan tanh trunc",
)
pointwise(numbers, "abs neg sign")
