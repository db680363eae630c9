"""Functions of one number, element by element: roots, exponentials, trigonometry, rounding, signs."""

from __future__ import annotations

import math

import torch

from onnx_parity.harness.case import floats, given, ints, numbers, op

_FLOATING = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
_INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
_ALL = [*_FLOATING, *_INTS, torch.bool]
_EDGES = given([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-6, -1e-6, 12.0, -12.0])
_ANY, _POSITIVE, _INSIDE, _ABOVE = floats(3, 4), floats(3, 4, low=0.1), floats(3, 4, low=-0.95), floats(3, 4, low=1.05)
_DYNAMIC = {"x": {0: "batch"}}

# --- roots, exponentials, logarithms ----------------------------------------------------------------------------------

sqrt = op(torch.sqrt, _POSITIVE, dtypes=_FLOATING, dynamic=_DYNAMIC)
rsqrt = op(torch.rsqrt, _POSITIVE, dtypes=_FLOATING)
exp = op(torch.exp, _ANY, dtypes=_FLOATING)
exp2 = op(torch.exp2, _ANY, dtypes=_FLOATING)
expm1 = op(torch.expm1, _ANY, dtypes=_FLOATING)
expm1_small = op(torch.expm1, given([1e-7, -1e-5, 1e-3, -0.01, 0.1]), dtypes=_FLOATING[:2])
log = op(torch.log, _POSITIVE, dtypes=_FLOATING)
log2 = op(torch.log2, _POSITIVE, dtypes=_FLOATING)
log10 = op(torch.log10, _POSITIVE, dtypes=_FLOATING)
log1p = op(torch.log1p, _INSIDE, dtypes=_FLOATING)
log1p_small = op(torch.log1p, given([1e-7, -1e-5, 1e-3, -0.01, 0.1, 1e10]), dtypes=_FLOATING[:2])
#: Integers are promoted to float32.
of_integers = op(
    lambda x, f: f(x),
    numbers(3, 4, low=1),
    f=[
        torch.sqrt, torch.rsqrt, torch.exp, torch.exp2, torch.expm1, torch.log, torch.log2, torch.log10,
        torch.sin, torch.cos, torch.tan, torch.atan, torch.sinh, torch.cosh, torch.tanh, torch.asinh, torch.acosh,
        torch.erf, torch.sigmoid, torch.reciprocal,
    ],
    dtypes=[torch.int64, torch.uint8],
)  # fmt: skip
elementwise_at_edges = op(
    lambda x, f: f(x),
    _EDGES,
    f=[
        torch.sqrt, torch.rsqrt, torch.exp, torch.exp2, torch.expm1, torch.log, torch.log2, torch.log10,
        torch.sin, torch.cos, torch.tan, torch.acos, torch.sinh, torch.cosh, torch.tanh, torch.acosh, torch.erf,
        torch.sigmoid, torch.abs, torch.neg, torch.sign, torch.ceil, torch.floor, torch.square, torch.signbit,
    ],
    dtypes=_FLOATING[:2],
)  # fmt: skip
zeros_at_edges = op(
    lambda x, f: f(x),
    _EDGES,
    f=[torch.log1p, torch.round, torch.trunc, torch.asin, torch.atan, torch.asinh, torch.atanh],
    dtypes=_FLOATING[:2],
    signed_zeros=False,
    because="where ONNX or onnxruntime has no such operator, what it is written with gives -0.0 no sign",
)
of_nothing = op(lambda x, f: f(x), floats(0, 3), f=[torch.exp, torch.abs, torch.round, torch.sign, torch.log1p])
of_a_scalar = op(lambda x, f: f(x), floats(low=0.2), f=[torch.sqrt, torch.abs, torch.round, torch.sinh, torch.log2])
elementwise_in_place = op(
    lambda x: (x * 1).abs_().sqrt_().neg_().exp_().sin_().tanh_().reciprocal_().floor_(), _POSITIVE, dynamic=_DYNAMIC
)
methods = op(lambda x: (x.sqrt(), x.exp(), x.log(), x.sin(), x.abs(), x.sign(), x.round(), x.erf()), _POSITIVE)
into = op(lambda x: torch.exp(x, out=torch.empty(3, 4)), _ANY)

# --- trigonometry -----------------------------------------------------------------------------------------------------

sin = op(torch.sin, _ANY, dtypes=_FLOATING)
cos = op(torch.cos, _ANY, dtypes=_FLOATING)
tan = op(torch.tan, floats(3, 4, low=-1.2, high=1.2), dtypes=_FLOATING)
asin = op(torch.asin, _INSIDE, dtypes=_FLOATING)
acos = op(torch.acos, _INSIDE, dtypes=_FLOATING)
atan = op(torch.atan, _ANY, dtypes=_FLOATING)
sinh = op(torch.sinh, _ANY, dtypes=_FLOATING)
cosh = op(torch.cosh, _ANY, dtypes=_FLOATING)
elementwise_tanh = op(torch.tanh, _ANY, dtypes=_FLOATING)
asinh = op(torch.asinh, _ANY, dtypes=_FLOATING)
acosh = op(torch.acosh, _ABOVE, dtypes=_FLOATING)
atanh = op(torch.atanh, _INSIDE, dtypes=_FLOATING)
hyperbolic_small = op(
    lambda x, f: f(x),
    given([1e-6, -1e-4, 0.01, -0.2]),
    f=[torch.sinh, torch.tanh, torch.asinh, torch.atanh],
    dtypes=_FLOATING[:2],
)
arcs_at_the_ends = op(
    lambda x, f: f(x), given([1.0, -1.0, 0.0, 1e-9]), f=[torch.asin, torch.acos], dtypes=_FLOATING[:2]
)
arcus_aliases = op(
    lambda x: (torch.arcsin(x), torch.arccos(x), torch.arctan(x), torch.arcsinh(x), torch.arctanh(x)), _INSIDE
)
erf = op(torch.erf, floats(3, 4, low=-3.0, high=3.0), dtypes=_FLOATING)
erf_tails = op(torch.erf, given([1e-5, -1e-3, 0.4, 0.9, -2.2, 3.7, 5.0, -9.0]), dtypes=_FLOATING[:2])

# --- rounding and signs -----------------------------------------------------------------------------------------------

_HALVES = given([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 8388609.0, 3.2, -7.7])

ceil = op(torch.ceil, floats(3, 4, low=-5.0, high=5.0), dtypes=_FLOATING)
floor = op(torch.floor, floats(3, 4, low=-5.0, high=5.0), dtypes=_FLOATING)
trunc = op(torch.trunc, floats(3, 4, low=-5.0, high=5.0), dtypes=_FLOATING)
round_half_to_even = op(torch.round, _HALVES, dtypes=_FLOATING)
round_decimals = op(torch.round, floats(3, 4, low=-500.0, high=500.0), decimals=[0, 1, 3, -1])
roundings_of_integers = op(
    lambda x: (torch.ceil(x), torch.floor(x), torch.round(x), torch.trunc(x)), numbers(3, 4), dtypes=_INTS
)
frac = op(torch.frac, floats(3, 4, low=-5.0, high=5.0))
abs_ = op(torch.abs, numbers(3, 4), dtypes=_ALL[:-1])
abs_lowest = op(torch.abs, given([-128, 127, 0], dtype=torch.int8))
sign = op(torch.sign, numbers(3, 4), dtypes=_ALL)
sgn = op(torch.sgn, numbers(3, 4), dtypes=_ALL)
signbit = op(torch.signbit, numbers(3, 4), dtypes=[*_FLOATING, *_INTS])
spellings = op(lambda x: (abs(x), torch.absolute(x), x.__abs__(), -x, torch.fix(x), torch.special.expm1(x)), _ANY)
large_integers = op(lambda x: (torch.abs(x), torch.sign(x), -x), ints(6, low=-(2**62), high=2**62))
