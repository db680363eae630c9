"""Elementwise functions of one tensor: roots, exponentials, trigonometry, rounding, signs, parts of floats."""

from __future__ import annotations

import math

import torch

from onnx_parity.harness.case import (
    ALL_DTYPES,
    BATCH,
    FLOATS,
    INTS,
    NUMBERS,
    WIDE_FLOATS,
    floats,
    given,
    ints,
    numbers,
    op,
)
from onnx_parity.op_cases.function_sweeps import edges, of_one, twice

_EDGES = edges(math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-6, -1e-6, 12.0, -12.0)
_ANY, _POSITIVE, _INSIDE, _ABOVE = floats(3, 4), floats(3, 4, low=0.1), floats(3, 4, low=-0.95), floats(3, 4, low=1.05)
#: In each dtype, because NaN is treated otherwise where there are other kernels.
_NAN = (math.nan,)
_ANY_OR_NAN, _POSITIVE_OR_NAN = floats(3, 4, special=_NAN), floats(3, 4, low=0.1, special=_NAN)
_INSIDE_OR_NAN, _ABOVE_OR_NAN = floats(3, 4, low=-0.95, special=_NAN), floats(3, 4, low=1.05, special=_NAN)

# --- roots, exponentials, logarithms ----------------------------------------------------------------------------------

sqrt = op(torch.sqrt, _POSITIVE_OR_NAN, dtypes=FLOATS, dynamic=BATCH)
rsqrt = op(torch.rsqrt, _POSITIVE_OR_NAN, dtypes=FLOATS)
exp = op(torch.exp, _ANY_OR_NAN, dtypes=FLOATS)
exp2 = op(torch.exp2, _ANY_OR_NAN, dtypes=FLOATS)
expm1 = op(torch.expm1, _ANY_OR_NAN, dtypes=FLOATS)
expm1_small = op(torch.expm1, given([1e-7, -1e-5, 1e-3, -0.01, 0.1]), dtypes=WIDE_FLOATS)
log = op(torch.log, _POSITIVE_OR_NAN, dtypes=FLOATS)
log2 = op(torch.log2, _POSITIVE_OR_NAN, dtypes=FLOATS)
log10 = op(torch.log10, _POSITIVE_OR_NAN, dtypes=FLOATS)
log1p = op(torch.log1p, _INSIDE_OR_NAN, dtypes=FLOATS)
log1p_small = op(torch.log1p, given([1e-7, -1e-5, 1e-3, -0.01, 0.1, 1e10]), dtypes=WIDE_FLOATS)
#: Integers are promoted to float32.
of_integers = op(
    of_one,
    numbers(3, 4, low=1),
    f=[
        torch.sqrt, torch.rsqrt, torch.exp, torch.exp2, torch.expm1, torch.log, torch.log2, torch.log10,
        torch.sin, torch.cos, torch.tan, torch.atan, torch.sinh, torch.cosh, torch.tanh, torch.asinh, torch.acosh,
        torch.erf, torch.sigmoid, torch.reciprocal,
    ],
    dtypes=[torch.int64, torch.uint8],
)  # fmt: skip
#: Integers of which the lower 32 bits are small numbers.
of_far_integers_as_floats = op(
    lambda x: [
        f(x) for f in (
            torch.sqrt, torch.rsqrt, torch.exp, torch.exp2, torch.expm1, torch.log, torch.log2, torch.log10,
            torch.log1p, torch.atan, torch.sinh, torch.cosh, torch.tanh, torch.asinh, torch.erf, torch.erfc,
            torch.sigmoid, torch.reciprocal,
        )
    ], given([2**32 + 3, 3 - 2**33, 2**40 + 1, 1]), dtypes=[torch.int64],
)  # fmt: skip
elementwise_at_edges = op(
    twice,
    _EDGES,
    f=[
        torch.sqrt, torch.rsqrt, torch.exp, torch.exp2, torch.expm1, torch.log, torch.log2, torch.log10,
        torch.sin, torch.cos, torch.tan, torch.acos, torch.sinh, torch.cosh, torch.tanh, torch.acosh, torch.erf,
        torch.sigmoid, torch.abs, torch.neg, torch.sign, torch.ceil, torch.floor, torch.square, torch.signbit,
        torch.round,
    ],
    dtypes=WIDE_FLOATS,
)  # fmt: skip
zeros_at_edges = op(
    twice,
    _EDGES,
    f=[torch.log1p, torch.trunc, torch.asin, torch.atan, torch.asinh, torch.atanh],
    dtypes=WIDE_FLOATS,
    signed_zeros=False,
    because="where ONNX or onnxruntime has no such operator, the operators that replace it give zeros no sign",
)
of_nothing = op(of_one, floats(0, 3), f=[torch.exp, torch.abs, torch.round, torch.sign, torch.log1p])
of_a_scalar = op(of_one, floats(low=0.2), f=[torch.sqrt, torch.abs, torch.round, torch.sinh, torch.log2])
elementwise_in_place = op(
    lambda x: (x * 1).abs_().sqrt_().neg_().exp_().sin_().tanh_().reciprocal_().floor_(), _POSITIVE, dynamic=BATCH
)
methods = op(lambda x: (x.sqrt(), x.exp(), x.log(), x.sin(), x.abs(), x.sign(), x.round(), x.erf()), _POSITIVE)
into = op(lambda x: torch.exp(x, out=torch.empty(3, 4)), _ANY)

# --- trigonometry -----------------------------------------------------------------------------------------------------

sin = op(torch.sin, _ANY_OR_NAN, dtypes=FLOATS)
cos = op(torch.cos, _ANY_OR_NAN, dtypes=FLOATS)
tan = op(torch.tan, floats(3, 4, low=-1.2, high=1.2, special=_NAN), dtypes=FLOATS)
asin = op(torch.asin, _INSIDE_OR_NAN, dtypes=FLOATS)
acos = op(torch.acos, _INSIDE_OR_NAN, dtypes=FLOATS)
atan = op(torch.atan, _ANY_OR_NAN, dtypes=FLOATS)
sinh = op(torch.sinh, _ANY_OR_NAN, dtypes=FLOATS)
cosh = op(torch.cosh, _ANY_OR_NAN, dtypes=FLOATS)
elementwise_tanh = op(torch.tanh, _ANY_OR_NAN, dtypes=FLOATS)
asinh = op(torch.asinh, _ANY_OR_NAN, dtypes=FLOATS)
acosh = op(torch.acosh, _ABOVE_OR_NAN, dtypes=FLOATS)
atanh = op(torch.atanh, _INSIDE_OR_NAN, dtypes=FLOATS)
hyperbolic_small = op(
    of_one,
    given([1e-6, -1e-4, 0.01, -0.2]),
    f=[torch.sinh, torch.tanh, torch.asinh, torch.atanh],
    dtypes=WIDE_FLOATS,
)
arcs_at_the_ends = op(of_one, given([1.0, -1.0, 0.0, 1e-9]), f=[torch.asin, torch.acos], dtypes=WIDE_FLOATS)
arcus_aliases = op(
    lambda x: (torch.arcsin(x), torch.arccos(x), torch.arctan(x), torch.arcsinh(x), torch.arctanh(x)), _INSIDE
)
erf = op(torch.erf, floats(3, 4, low=-3.0, high=3.0, special=_NAN), dtypes=FLOATS)
erf_tails = op(torch.erf, given([1e-5, -1e-3, 0.4, 0.9, -2.2, 3.7, 5.0, -9.0]), dtypes=WIDE_FLOATS)

# --- rounding and signs -----------------------------------------------------------------------------------------------

_HALVES = given([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 8388609.0, 3.2, -7.7])

ceil = op(torch.ceil, floats(3, 4, low=-5.0, high=5.0, special=_NAN), dtypes=FLOATS)
floor = op(torch.floor, floats(3, 4, low=-5.0, high=5.0, special=_NAN), dtypes=FLOATS)
trunc = op(torch.trunc, floats(3, 4, low=-5.0, high=5.0, special=_NAN), dtypes=FLOATS)
#: Numbers that float32 rounds to whole ones, to infinity or to 0.
roundings_of_float64 = op(
    lambda x: (
        *(f(x) for f in (torch.ceil, torch.floor, torch.round, torch.trunc, torch.sign, torch.isfinite, torch.isinf)),
        *(f(x) for f in (torch.isposinf, torch.isneginf, torch.logical_not, torch.count_nonzero)),
        *(f(x, torch.ones_like(x)) for f in (torch.logical_and, torch.logical_xor)),
        x.all(),
        x[-1:].any(),
        x < 2,
    ),
    given([2 - 2**-40, 2 + 2**-40, 0.5 + 2**-40, -1 - 2**-40, 1e300, -1e300, 1e-300], dtype=torch.float64),
)
round_half_to_even = op(torch.round, _HALVES, dtypes=FLOATS)
round_decimals = op(torch.round, floats(3, 4, low=-500.0, high=500.0), decimals=[0, 1, 3, -1])
roundings_of_integers = op(
    lambda x: (torch.ceil(x), torch.floor(x), torch.round(x), torch.trunc(x)), numbers(3, 4), dtypes=INTS
)
frac = op(torch.frac, floats(3, 4, low=-5.0, high=5.0))
abs_ = op(torch.abs, numbers(3, 4), dtypes=NUMBERS)
abs_lowest = op(torch.abs, given([-128, 127, 0], dtype=torch.int8))
sign = op(torch.sign, numbers(3, 4), dtypes=ALL_DTYPES)
sgn = op(torch.sgn, numbers(3, 4), dtypes=ALL_DTYPES)
signbit = op(torch.signbit, numbers(3, 4), dtypes=NUMBERS)
spellings = op(lambda x: (abs(x), torch.absolute(x), x.__abs__(), -x, torch.fix(x), torch.special.expm1(x)), _ANY)
large_integers = op(lambda x: (torch.abs(x), torch.sign(x), -x, torch.signbit(x)), ints(6, low=-(2**62), high=2**62))

ldexp = op(torch.ldexp, floats(3, 4), ints(4, low=-3, high=4), dtypes=FLOATS, dynamic={"x0": {0: "batch"}})

# --- parts and neighbours of floating-point numbers -------------------------------------------------------------------

frexp = op(
    torch.frexp,
    given([0.0, -0.0, 1.0, -3.0, 0.75, 1e-40, 3e38, 1e-45, 1024.0, 0.1]),
    dtypes=WIDE_FLOATS,
    signed_zeros=False,
    because="onnxruntime's Where makes 0.0 of -0.0",
    tier="default",
)
frexp_of_doubles = op(torch.frexp, given([1e308, -1e-308, 5e-324, 1e-300], dtype=torch.float64), tier="default")
nextafter = op(
    torch.nextafter,
    given([[0.0], [1.0], [-1.0], [2.0], [1e-40], [3e38], [math.inf], [math.nan], [1e-30], [-1e-35]]),
    given([0.0, 2.0, -5.0, math.inf, math.nan]),
    dtypes=WIDE_FLOATS,
    tier="default",
)
#: Whole units in the last place, since the tolerance of floats is wider than one.
nextafter_in_units = op(
    lambda x, y: ((torch.nextafter(x, y) - x) * 2**24).to(torch.int32),
    given([1.0, 1.25, 1.75, 1.9999, 1.5, 1.0]),
    given([2.0, 0.0, 9.0, math.inf, -math.inf, 0.0]),
)
#: In units of the smallest number: the numbers from which on the distance to the next one doubles.
nextafter_at_thresholds = op(
    lambda x, y: ((torch.nextafter(x, y) * 2.0**100 - x * 2.0**100) * 2.0**49).to(torch.int32),
    given([2.0**-125, 2.0**-125, -(2.0**-125), 2.0**-126, 2.0**-126, 2.0**-124, 2.0**-101, -(2.0**-101)]),
    given([1.0, 0.0, -1.0, 1.0, 0.0, 0.0, 1.0, 0.0]),
)
#: Numbers so small that what is added to them would not be exact, which are scaled.
nextafter_of_small = op(
    lambda x, y: ((torch.nextafter(x, y) * 2.0**100 - x * 2.0**100) * 2.0**35).to(torch.int32),
    given([2.0**-110, -(2.0**-112), 2.0**-111, -(2.0**-113)]),
    given([1.0, 0.0, 0.0, -1.0]),
)
#: Numbers so small that 1 is all that is left of a sum with 1, in each dtype.
of_small_numbers = op(
    lambda x, f: f(x),
    given([2.0**-power * sign for power in range(3, 14) for sign in (1, -1)]),
    f=[torch.log1p, torch.expm1, torch.sinh, torch.asinh, torch.atanh, torch.tanh, torch.erf],
    dtypes=FLOATS,
)
