"""Comparison, selection by a condition, minimum and maximum, clamping, and boolean and bitwise logic."""

from __future__ import annotations

import math

import torch

from onnx_parity.harness.case import (
    ALL_DTYPES,
    BATCH,
    FLOATS,
    INTS,
    NUMBERS,
    SIGNED_INTS,
    WIDE_FLOATS,
    Rows,
    bools,
    floats,
    given,
    ints,
    numbers,
    op,
)
from onnx_parity.op_cases.function_sweeps import edges, of_two

_EDGES = edges(math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.5)
_OTHERS = given([[math.nan], [math.inf], [-math.inf], [0.0], [1.5]])
_LARGE = edges(2**62, 2**62 + 1, -(2**62), 2**53, 2**53 + 1)
_COMPARISONS = [torch.eq, torch.ne, torch.lt, torch.gt, torch.le, torch.ge]


def _known_choices(x: torch.Tensor, row: torch.Tensor, everywhere: bool) -> tuple[torch.Tensor, ...]:
    """One side is chosen for all elements; it has the shape of the result, a smaller one, or another dtype."""
    whole, column = (torch.full(sizes, everywhere) for sizes in ((3, 4), (3, 1)))
    return torch.where(whole, x, row), torch.where(column, row, x), torch.where(whole, x, x.double()), x.where(whole, 2)


def _chosen(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Choices where the other value is NaN or infinite."""
    return torch.where(x > 0, x.log(), x), torch.where(x < 0, 1 / x + 1, x.rsqrt()), x.sqrt().where(x > 0, -1.5)


comparison = op(of_two, numbers(3, 4), y=numbers(4), f=_COMPARISONS, dtypes=ALL_DTYPES)
comparison_dynamic = op(of_two, floats(3, 4), y=floats(4), f=_COMPARISONS, dynamic=BATCH)
comparison_with_number = op(of_two, numbers(3, 4), y=[1, 0.5], f=_COMPARISONS, dtypes=NUMBERS)
comparison_promoted = op(of_two, ints(3, 4, dtype=torch.int32), y=[ints(4), floats(4)], f=_COMPARISONS)
comparison_at_edges = op(of_two, _EDGES, y=_OTHERS, f=_COMPARISONS)
#: Integers that are equal once they are converted to floats.
comparison_of_large = op(of_two, _LARGE, y=given([[2**62], [2**53]]), f=_COMPARISONS)
#: A number outside the range of the dtype wraps around into it, as in torch.
comparison_wrapped = op(lambda x, f: f(x, -1), given([0, 200, 255], dtype=torch.uint8), f=_COMPARISONS)
comparison_operators = op(
    lambda x, y: (x == y, x != y, x < y, x > y, x <= y, x >= y, x > 1), numbers(3, 4), y=numbers(4)
)
comparison_into = op(lambda x, y: (x * 1).lt_(y).eq_(1), floats(3, 4), y=floats(4))
isnan = op(torch.isnan, numbers(3, 4), dtypes=ALL_DTYPES)
classes_at_edges = op(
    lambda x: (torch.isnan(x), torch.isinf(x), torch.isfinite(x), torch.isposinf(x), torch.isneginf(x)),
    _EDGES,
    dtypes=FLOATS,
)
classes_of_largest = op(
    lambda x: [
        f(x * torch.finfo(x.dtype).max)
        for f in (torch.isnan, torch.isinf, torch.isfinite, torch.isposinf, torch.isneginf, torch.nan_to_num)
    ],
    given([1.0, -1.0]),
    dtypes=FLOATS,
)
isinf = op(torch.isinf, numbers(3, 4), dtypes=ALL_DTYPES)
isfinite = op(torch.isfinite, numbers(3, 4), dtypes=ALL_DTYPES)

# --- selection by a condition -----------------------------------------------------------------------------------------

where = op(torch.where, bools(3, 4), numbers(3, 4), numbers(4), dtypes=ALL_DTYPES)
where_broadcast = op(torch.where, bools(3, 1), floats(1, 4), floats())
where_of_three_axes = op(torch.where, bools(2, 1, 4), floats(5, 4), floats(2, 5, 1))
where_known = op(_known_choices, floats(3, 4), floats(4), everywhere=[True, False])
where_numbers = op(lambda c, a, b: torch.where(c, a, b) + 0, bools(3, 4), a=[1, 0.5, floats(3, 4)], b=[2, -1.5])
where_promoted = op(torch.where, bools(3, 4), ints(3, 4), floats(4))
#: A NaN or an infinity that is not selected must not reach the result.
where_unchosen = op(lambda x: torch.where(x > 0, x, torch.zeros(())), _EDGES, dtypes=WIDE_FLOATS)
where_infinite = op(
    lambda x: (torch.where(x > 0, x, -math.inf), torch.where(x > 0, math.inf, x)), floats(3, 4), dynamic=BATCH
)
where_chosen = op(_chosen, _EDGES, dtypes=WIDE_FLOATS)
where_chosen_dynamic = op(_chosen, floats(3, 4), dynamic=BATCH)
where_byte = op(lambda c, y: torch.where(c.bool(), y, 0), ints(3, 4, high=2, dtype=torch.uint8), y=floats(3, 4))
where_empty = op(torch.where, bools(0, 4), floats(4), floats(0, 4))
where_method = op(lambda x, c, y: x.where(c, y), floats(3, 4), c=bools(4), y=floats(3, 4))

# --- minimum, maximum and clamping ------------------------------------------------------------------------------------

maximum = op(torch.maximum, numbers(3, 4), other=numbers(4), dtypes=ALL_DTYPES, dynamic=BATCH)
minimum = op(torch.minimum, numbers(3, 4), other=numbers(4), dtypes=ALL_DTYPES, dynamic=BATCH)
maximum_of_doubles = op(torch.maximum, floats(3, 4, dtype=torch.float64), other=floats(4, dtype=torch.float64))
fmax = op(torch.fmax, numbers(3, 4), other=numbers(4), dtypes=ALL_DTYPES)
fmin = op(torch.fmin, numbers(3, 4), other=numbers(4), dtypes=ALL_DTYPES)
extremes_at_edges = op(
    of_two, _EDGES, y=_OTHERS, f=[torch.maximum, torch.minimum, torch.fmax, torch.fmin],
    signed_zeros=False, because="0.0 and -0.0 are equal, and ONNX's Max and Min may return either",
)  # fmt: skip
extremes_promoted = op(lambda x, y: (torch.maximum(x, y), torch.min(x, y), torch.max(x, y)), ints(3, 4), y=floats(4))
_NOT_FINITE = floats(3, 4, special=(math.nan, math.inf, -math.inf))
nan_to_num = op(torch.nan_to_num, _NOT_FINITE, rows=[{"nan": 2.5}, {"posinf": 3.0, "neginf": -4.0}], dtypes=FLOATS)
isclose = op(
    torch.isclose,
    given([1.0, 1.01, 100.0, 101.0, math.nan, math.inf]),
    given([1.001, 1.0, 100.5, 100.0, math.nan, math.inf]),
    rows=[{"rtol": 0.009}, {"rtol": 0.0, "atol": 0.6}, {"equal_nan": True}],
)
clamp = op(
    torch.clamp,
    numbers(3, 4, low=-9, high=10, far=True),
    rows=[{"min": -2, "max": 3}, {"min": 1}, {"max": 2}],
    dtypes=[*FLOATS, *SIGNED_INTS],
)
clamp_unsigned = op(torch.clamp, ints(3, 4, high=256, dtype=torch.uint8), min=[3], max=[100])
clamp_floats = op(
    torch.clamp,
    floats(3, 4, special=(math.nan,)),
    rows=[{"min": -0.5, "max": 0.25}, {"min": 0.1}, {"max": -0.1}],
    dtypes=FLOATS,
)
clamp_crossed = op(torch.clamp, floats(3, 4), min=0.5, max=-0.5)
clamp_promoted = op(torch.clamp, ints(3, 4, low=-5), min=[-0.5, 2.5])
_BOUNDS: Rows = [{"min": -1, "max": 1}, {"min": 0}, {"max": 0}, {"min": math.nan}]
clamp_at_edges = op(torch.clamp, _EDGES, rows=_BOUNDS, dtypes=[torch.float32])
clamp_doubles_at_edges = op(
    torch.clamp,
    _EDGES,
    rows=_BOUNDS,
    dtypes=[torch.float64],
    signed_zeros=False,
    because="onnxruntime has no Clip of float64 before opset 12, and ONNX's Max and Min say nothing of signs of zeros",
)
clamp_tensors = op(
    torch.clamp,
    numbers(3, 4),
    rows=[{"min": numbers(4), "max": numbers(3, 1)}, {"min": numbers(4)}, {"max": numbers()}],
    dtypes=NUMBERS,
)
clamp_min = op(torch.clamp_min, numbers(3, 4), min=[1, numbers(4)], dtypes=[torch.float32, torch.int64])
clamp_max = op(torch.clamp_max, numbers(3, 4), max=[1, numbers(4)], dtypes=[torch.float32, torch.int64])
clamp_spellings = op(
    lambda x: (x.clip(0, 1), (x * 1).clamp_(min=0), (x * 1).clamp_max_(0.5), x.clamp(0.1)), floats(3, 4)
)

# --- logic ------------------------------------------------------------------------------------------------------------

logical = op(
    of_two,
    numbers(3, 4, low=-1, high=2, far=True),
    y=numbers(4, low=-1, high=2, far=True),
    f=[torch.logical_and, torch.logical_or, torch.logical_xor],
    dtypes=ALL_DTYPES,
)
logical_not = op(torch.logical_not, numbers(3, 4, low=-1, high=2, far=True), dtypes=ALL_DTYPES)
logical_mixed = op(lambda x, y: (torch.logical_and(x, y), torch.logical_xor(x, y)), ints(3, 4, high=2), y=floats(4))
bitwise = op(
    of_two,
    numbers(3, 4, low=-100, high=120, far=True),
    y=numbers(4, low=-100, high=120, far=True),
    f=[torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor],
    dtypes=[*INTS, torch.bool],
)
bitwise_large = op(lambda x, y: (x & y, x | y, x ^ y, ~x), _LARGE, y=given([[-1], [2**53 + 5], [-(2**60)]]))
bitwise_number = op(lambda x: (x & 6, x | 3, x ^ 5, 6 & x), numbers(3, 4), dtypes=INTS)
bitwise_not = op(torch.bitwise_not, numbers(3, 4), dtypes=[*INTS, torch.bool])
bool_operators = op(lambda x, y: (x & y, x | y, x ^ y, ~x), bools(3, 4), y=bools(4))
shifts = op(
    lambda x, y: (x << y, x >> y),
    numbers(3, 4, low=-100, high=120, far=True),
    y=numbers(4, low=-3, high=7),
    dtypes=INTS,
)
shifts_named = op(
    lambda x, y: (torch.bitwise_left_shift(x, y), torch.bitwise_right_shift(x, y), torch.bitwise_left_shift(x, 2)),
    numbers(3, 4, low=-100, high=120, far=True),
    y=numbers(4, low=-3, high=7),
    dtypes=INTS,
)
shifts_out_of_range = op(
    lambda x, y: (x << y, x >> y, 3 << y, -3 >> y, x << 70, x >> 70), given([5, -5, 5, -5]), y=given([-1, -2, 64, 90])
)
shifts_below_zero = op(
    lambda x, y: (x << y, x >> y), given([[5, -5, 7], [2**40 + 1, -(2**40), 2**62]]), y=given([-2, -3, -20])
)
shifts_of_any_size = op(
    lambda x, y: (x << y, x >> y, x[:, :1].byte() << torch.arange(3, dtype=torch.uint8)),
    ints(3, 4, low=0, high=120), y=ints(4, low=0, high=7),
    dynamic={"x": {0: "rows", 1: "columns"}, "y": {0: "columns"}},
)  # fmt: skip
shifts_far = op(lambda x: (x << 62, x >> 63, x >> 40), _LARGE)

isin = op(torch.isin, ints(3, 4), ints(12), rows=[{}, {"invert": True}, {"assume_unique": True}])
isin_of_any_size = op(
    lambda x, y, invert: torch.isin(x.round(), y.round(), invert=invert),
    floats(4, 2),
    y=floats(3),
    invert=[False, True],
    dynamic={"x": {0: "rows"}, "y": {0: "tested"}},
    sizes={"rows": [1, 6], "tested": [0, 5]},
)
#: NaN on either side among more than 30 elements, in each dtype, in the first and in the second call.
compared_nan = op(
    lambda x, y, f: (f(x, y), f(y, x)),
    floats(5, 7, special=(math.nan, math.nan, math.inf, -math.inf)),
    floats(1, 7, special=(math.nan, math.inf)),
    f=[*_COMPARISONS, torch.maximum, torch.minimum, torch.fmax, torch.fmin],
    dtypes=FLOATS,
    dynamic={"x0": {0: "rows"}},
)
#: Values that are equal in fewer bits.
far_members = op(
    lambda x, y: (
        torch.isin(x + y[0], y),
        torch.isclose(x + y[0], y[:3]),
        torch.isclose(x + y[0], y[:3] + x[0, 0], rtol=0.0, atol=0.5),
    ),
    numbers(2, 3, low=-1, high=2),
    numbers(9),
    dtypes=[torch.float64, torch.int64],
)
#: Integers whose lower 32 bits have the other sign. (For the greatest and the sign of such, see the finding
#: onnxruntime_maximum_of_large_integers.)
_OTHER_SIGNS = given([2**32 - 3, 3 - 2**32, 2**32 + 3, -5, 5, -(2**40) + 7])
order_of_far_numbers = op(
    lambda x, y, f: (f(x, y), f(y, x), f(x, 0), f(x[:, None], y)),
    _OTHER_SIGNS,
    given([5, -5, 7, 3 - 2**33, 2**40, 0]),
    f=_COMPARISONS,
    dtypes=[torch.int64],
)
signs_of_far_numbers = op(
    lambda x: (x.signbit(), x.neg(), x > 0, x.bool(), x.float(), x.double()), _OTHER_SIGNS, dtypes=[torch.int64]
)
