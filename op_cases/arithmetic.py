"""Arithmetic on two tensors, or on a tensor and a number, and common divisors."""

from __future__ import annotations

import math
import operator

import torch

from onnx_parity.harness.case import (
    ALL_DTYPES,
    BATCH,
    FLOATS,
    INTS,
    NUMBERS,
    SIGNED_INTS,
    WIDE_FLOATS,
    Keywords,
    bools,
    floats,
    given,
    ints,
    numbers,
    op,
)
from onnx_parity.op_cases.function_sweeps import edges, of_two

_EDGES = edges(math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.5)
_ROUNDED_ZERO = (
    "torch gives a quotient or remainder that is zero the sign of the exact value; ONNX's formula gives it none"
)

# --- add, sub, mul ----------------------------------------------------------------------------------------------------

add = op(torch.add, numbers(2, 3), other=numbers(2, 3), dtypes=ALL_DTYPES)
add_alpha = op(torch.add, numbers(2, 3), other=numbers(3), alpha=[2, -1], dtypes=NUMBERS, dynamic=BATCH)
add_number = op(torch.add, numbers(2, 3), other=[2, 0.5, True], alpha=[1, 3])
add_broadcast = op(torch.add, floats(4, 1, 3), other=[floats(2, 1), floats(1), floats(), floats(5, 4, 2, 3)])
add_promoted = op(
    torch.add, numbers(2, 3), other=[ints(3), ints(2, 1, dtype=torch.int8), floats(1, dtype=torch.float64)]
)
#: -0.0 + 0.0 is 0.0, of which the reciprocal is infinity.
add_zero = op(lambda x: 1 / (-x + 0.0), given([0.0, -0.0, 1.0]))
add_promoted_0d = op(torch.add, numbers(2, 3, dtype=torch.int8), other=[ints(), floats(), 2.5, 3])
add_empty = op(torch.add, floats(0, 3), other=floats(3))
add_ = op(lambda x, other: (x * 1).add_(other, alpha=2), floats(2, 3), other=[floats(3), 1.5])
add_out = op(lambda x, other: torch.add(x, other, out=torch.empty(2, 3)), floats(2, 3), other=floats(3))
add_operators = op(
    lambda x, y: (x + y, 1 + x, x.add(y)), numbers(2, 3), y=numbers(3), dtypes=[torch.float32, torch.int64]
)
sub = op(torch.sub, numbers(2, 3), other=numbers(3), alpha=[1, 2], dtypes=NUMBERS)
sub_number = op(torch.sub, floats(2, 3), other=[2, 0.5], alpha=[1, 3])
sub_ = op(lambda x, y: (x * 1).sub_(y), floats(2, 3), y=floats(3))
rsub = op(torch.rsub, numbers(2, 3), other=[numbers(3), 5], alpha=[1, 2], dtypes=NUMBERS)
rsub_operator = op(lambda x: 1.5 - x, numbers(2, 3), dtypes=[torch.float32, torch.int64])
mul = op(torch.mul, numbers(2, 3), other=numbers(3), dtypes=ALL_DTYPES, dynamic=BATCH)
mul_number = op(torch.mul, numbers(2, 3), other=[3, -0.5, True, 1.0], dtypes=[torch.float32, torch.int64])
mul_ = op(lambda x, y: (x + 1).mul_(y), floats(2, 3), y=[floats(3), 2])
addcmul = op(torch.addcmul, numbers(2, 3), tensor1=numbers(2, 1), tensor2=numbers(3), value=[1, 2], dtypes=NUMBERS)
addcdiv = op(torch.addcdiv, floats(2, 3), tensor1=floats(2, 1), tensor2=floats(3, low=1.0), value=[1, 0.5])
neg = op(torch.neg, numbers(2, 3), dtypes=NUMBERS)
neg_spellings = op(lambda x: (-x, x.neg(), (x * 1).neg_(), torch.negative(x)), floats(2, 3))

#: Other exporters silently compute small integers in a larger dtype, where they do not wrap around.
wrap_around = op(
    lambda x, y: (x + y, x - y, x * y, -x, x * 3 + 200, (x + y) // 2),
    ints(40, low=0, high=256, dtype=torch.uint8),
    y=ints(40, low=0, high=256, dtype=torch.uint8),
)
wrap_around_signed = op(
    lambda x, y: (x + y, x - y, x * y, -x, (x + y) // 2, (x * y) % 7),
    ints(40, low=-128, high=128, dtype=torch.int8),
    y=ints(40, low=-128, high=128, dtype=torch.int8),
)
#: Numbers outside the range of the tensor's dtype: torch wraps them around into it.
number_wraps_around = op(
    lambda x: (x + 300, x - 300, 300 - x, x * -7, 1000 // x, x % 300, x & 300, x == 300, x > 257, x <= -1),
    ints(40, low=1, high=120),
    dtypes=[torch.uint8, torch.int8],
)

# --- division ---------------------------------------------------------------------------------------------------------

div = op(torch.div, numbers(3, 4), other=[numbers(4, low=1), 3, 2.5], dtypes=NUMBERS)
div_bool = op(torch.div, numbers(3, 4, dtype=torch.bool), other=2)
div_rounded = op(
    torch.div,
    numbers(5, 6, low=-9, high=10),
    other=numbers(6, low=1),
    rounding_mode=["floor", "trunc"],
    dtypes=NUMBERS,
)
div_by_zero = op(torch.div, _EDGES, other=0.0, rounding_mode=[None, "floor", "trunc"])
div_edges = op(
    torch.div, _EDGES, other=given([[math.inf], [-1.0], [math.nan]]), rounding_mode=[None, "floor", "trunc"],
    signed_zeros=False, because=_ROUNDED_ZERO,
)  # fmt: skip
div_ = op(lambda x, y: (x * 1).div_(y, rounding_mode="floor"), floats(2, 3), y=floats(3))
true_divide = op(torch.true_divide, numbers(2, 3), other=numbers(3, low=1), dtypes=[torch.float32, torch.int64])
divide_operators = op(lambda x: (x / 2, 2 / x, x // 2, 7 // x, x % 2, 7 % x), numbers(3, 4, low=1), dtypes=NUMBERS)

_DIVIDED = numbers(6, 7, low=-9, high=10)
_BY_INTS: Keywords = {"other": [given([-3, 2, 5, -1, 1, 7, -4]), 4, -3], "dtypes": SIGNED_INTS}
_BY_FLOATS: Keywords = {"other": [floats(6), 0.3, -0.7], "dtypes": WIDE_FLOATS}
_AT_EDGES: Keywords = {
    "other": given([[1.0], [0.0], [-math.inf]]), "signed_zeros": False, "because": _ROUNDED_ZERO
}  # fmt: skip

#: Other exporters silently round negative quotients towards zero.
floor_divide = op(torch.floor_divide, _DIVIDED, **_BY_INTS)
remainder = op(torch.remainder, _DIVIDED, **_BY_INTS)
fmod = op(torch.fmod, _DIVIDED, **_BY_INTS)
floor_divide_floats = op(torch.floor_divide, floats(5, 6), **_BY_FLOATS)
remainder_floats = op(torch.remainder, floats(5, 6), **_BY_FLOATS)
fmod_floats = op(torch.fmod, floats(5, 6), **_BY_FLOATS)
#: Quotients that are too large to be computed in float64, which ONNX's Mod needs not do.
fmod_far = op(torch.fmod, given([1e30, -3e20, 7e15], dtype=torch.float64), other=0.7)
floor_divide_edges = op(torch.floor_divide, _EDGES, **_AT_EDGES)
remainder_edges = op(torch.remainder, _EDGES, **_AT_EDGES)
fmod_edges = op(torch.fmod, _EDGES, **_AT_EDGES)
#: 1 // 0.1 is 9, although 1 / 0.1 rounds to 10.
floor_divide_close = op(lambda x: (x // 0.1, x % 0.1), given([1.0, 0.3, 0.7, -0.6, 123.4]), dtypes=WIDE_FLOATS)
remainder_unsigned = op(torch.remainder, ints(8, low=0, high=256, dtype=torch.uint8), other=[7, 200])
remainder_ = op(
    lambda x: (x * 1).remainder_(3).fmod_(2).floor_divide_(2), numbers(8, low=-9, high=10, dtype=torch.int64)
)
#: Beyond 2**53, where onnxruntime's Mod with fmod=1 rounds.
remainders_great = op(
    lambda x: (x // 3, x % 3, x.fmod(3)), given([2**60 + 1, -(2**60) - 1, -7], dtype=torch.int64), dtypes=[torch.int64]
)
reciprocal = op(torch.reciprocal, floats(2, 3), dtypes=FLOATS)
reciprocal_promoted = op(torch.reciprocal, ints(4, low=1))
reciprocal_edges = op(torch.reciprocal, _EDGES)

# --- powers -----------------------------------------------------------------------------------------------------------

pow_number = op(torch.pow, floats(3, 4, low=0.2), exponent=[2, 3, 0.5, -1, 0, 1, 2.5, -0.5], dtypes=FLOATS)
pow_negative_base = op(torch.pow, floats(3, 4), exponent=[2, 3, -2, 0.5])
pow_integer = op(torch.pow, numbers(3, 4), exponent=[0, 1, 2, 3, 7, 0.5], dtypes=INTS)
pow_tensor = op(torch.pow, floats(3, 4, low=0.2), exponent=floats(4), dtypes=FLOATS, dynamic=BATCH)
pow_integer_tensor = op(torch.pow, numbers(3, 4), exponent=numbers(4, low=0, high=6), dtypes=INTS)
#: What is beyond 64 bits is lost, which is all of even numbers, and never all of odd ones.
pow_wide = op(
    torch.pow,
    given([3, -3, 7, 0, 1, -1, 2]),
    exponent=given([[39], [70], [0], [1], [65536], [65537], [2**40 + 3], [2**62 + 1]]),
)
#: Only those of 1 and -1 are not 0.
pow_negative_exponents = op(
    torch.pow,
    given([1.0, -1.0, 2.0, -2.0, 1.0, -1.0]),
    exponent=given([-1.0, -1.0, -3.0, -1.0, -4.0, -2.0]),
    dtypes=SIGNED_INTS,
)
pow_promoted = op(torch.pow, ints(3, 4, low=1), exponent=[floats(4), ints(3, 1, high=3, dtype=torch.int32)])
pow_scalar_base = op(lambda exponent, base: torch.pow(base, exponent), floats(3, 4), base=[2, 0.5, 1])
pow_operators = op(lambda x: (x**2, 2**x, 2.5**x, x.pow(3), (x + 1).pow_(2)), floats(5, 7), dynamic=BATCH)
pow_edges = op(torch.pow, _EDGES, exponent=[2, 3, -1, 0.0, 2.0])
float_power = op(torch.float_power, ints(2, 3, low=1), exponent=[2, floats(3)])
square = op(torch.square, numbers(2, 3), dtypes=NUMBERS)
operators = op(lambda x, y: [f(x, y) for f in (operator.add, operator.sub, operator.mul)], floats(2), y=floats(2))

# --- other functions of two tensors, at zeros of both signs and infinities too ----------------------------------------

_EDGES_OF_PAIRS = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 3e38, 1e-30]
#: Every pair of these.
_PAIRS = given([[edge] for edge in _EDGES_OF_PAIRS]), given([_EDGES_OF_PAIRS])

atan2 = op(torch.atan2, floats(3, 4), floats(4), dtypes=FLOATS, dynamic={"x0": {0: "batch"}})
atan2_of_integers = op(torch.atan2, numbers(3, 4), numbers(3, 4), dtypes=[torch.int64])
hypot = op(torch.hypot, floats(3, 4), floats(4), dtypes=FLOATS)
copysign = op(torch.copysign, floats(3, 4), floats(4), dtypes=FLOATS)
copysign_number = op(torch.copysign, floats(3, 4), other=[2.0, -0.0])
two_numbers_at_edges = op(of_two, *_PAIRS, f=[torch.atan2, torch.hypot, torch.copysign])
two_in_place = op(lambda x, y: (x.clone().atan2_(y), x.clone().hypot_(y), x.clone().copysign_(y)), floats(3), floats(3))

# --- common divisors --------------------------------------------------------------------------------------------------

divisors = op(
    lambda a, b: (torch.gcd(a, b), torch.lcm(a, b)),
    numbers(3, 20, low=-11, high=12),
    numbers(20, low=-11, high=12),
    dtypes=SIGNED_INTS,
    tier="default",
)
#: The second has more axes, and more steps to go than its first elements.
divisors_of_more_axes = op(torch.gcd, given([1, 21, 89]), given([[1, 13, 144], [2, 34, 55]]), tier="default")
divisors_of_two_dtypes = op(
    lambda a, b: (torch.gcd(a, b), torch.lcm(a, b), torch.gcd(b, a)),
    numbers(3, 4, low=-11, high=12),
    ints(4, low=-11, high=12, dtype=torch.int32),
    dtypes=SIGNED_INTS,
)
#: torch computes narrow integers in 32 bits; the least integer is its own magnitude.
divisors_at_edges = op(
    lambda a, b: (torch.gcd(a, b), torch.lcm(a, b)),
    given([127, -128, -128, 100, 0, 126]), given([126, 3, -128, 75, 0, -127]), dtypes=SIGNED_INTS,
)  # fmt: skip
divisors_of_the_least = op(
    torch.lcm, given([-(2**63), -(2**63), 2**63 - 1]), given([-(2**63), 3, 2**63 - 2]), dtypes=[torch.int64],
)  # fmt: skip
divisors_large = op(torch.gcd, given([2**62, 6765 * 10**12, 3**39]), ints(3, low=1, high=2**40), tier="default")
#: What fewer bits round or wrap around decides about the quotient.
divided_far = op(
    lambda x: (x // 3, x % 3, torch.floor_divide(x, -7), (2**40 + 5) // (x.abs() + 1), (2**40 + 5) % (x.abs() + 1)),
    numbers(3, 4),
    dtypes=[torch.float64, torch.int64],
    signed_zeros=False,
    because="onnxruntime's Where loses the sign of -0, which is that of 0 // -7",
)
trapezoids_along_an_axis = op(lambda x: torch.cumulative_trapezoid(x, dim=0), floats(3, 4))
differences_with_more = op(torch.diff, floats(3, 4), append=floats(3, 2), prepend=floats(3, 1))
signs_of_zeros = op(
    lambda x, y: (x.signbit(), torch.copysign(y, x), torch.atan2(x, y), torch.atan2(y, x)),
    given([0.0, -0.0, 0.0, -0.0, 2.0, -3.0]),
    given([1.0, 1.0, -1.0, -1.0, 0.0, -0.0]),
    dtypes=FLOATS,
)
bools_scaled = op(
    lambda x, y: (torch.add(x, y, alpha=False), torch.add(x, y, alpha=True), torch.add(x, 2, alpha=3)),
    bools(3, 4),
    bools(3, 4),
)
