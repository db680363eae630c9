"""Reductions over axes: sums, minimum and maximum with their indices, any and all, norms, variances."""

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
    bools,
    distinct,
    floats,
    given,
    ints,
    numbers,
    op,
)

_DIMS = [None, 0, -1, (0, 2), (-1, -2)]
_EDGES = given([[math.nan, 1.0, 2.0], [math.inf, -1.0, 0.0], [-math.inf, math.inf, 1.0], [-math.inf, -math.inf, 3.0]])
_LAST = {"x": {2: "length"}}

#: What is reduced has no axes.
of_single_bools = op(
    lambda x: (x[0, 0].sum(), x[0, 0].any(0), x[1, 1].all(), torch.amax(x[0, 1], 0), x[1, 2].sum(-1)),
    bools(2, 3),
)

# --- sums -------------------------------------------------------------------------------------------------------------

sum_ = op(torch.sum, floats(2, 3, 4), dim=_DIMS, keepdim=[False, True], dynamic=_LAST)
sum_dtypes = op(torch.sum, numbers(3, 4), dim=[0, 1], dtypes=ALL_DTYPES)
sum_to = op(
    torch.sum,
    numbers(3, 4),
    dim=0,
    dtype=[torch.int32, torch.float64],
    dtypes=[torch.int64, torch.float32],
    without_nan="integers have no NaN",
)
sum_of_all = op(lambda x: (x.sum(), x.sum((0, 1, 2)), x.sum(()), x.sum(dtype=torch.float64)), numbers(2, 3, 4))
mean = op(torch.mean, floats(2, 3, 4), dim=_DIMS, keepdim=[False, True], dynamic=_LAST)
mean_dtypes = op(torch.mean, floats(3, 4), dim=[0, 1], dtypes=FLOATS)
#: Other exporters silently average integers as integers.
mean_of_integers = op(lambda x: (x.mean(0, dtype=torch.float32), x.float().mean()), numbers(3, 4), dtypes=INTS)
mean_over_space = op(torch.mean, floats(2, 3, 4, 5), dim=(2, 3), keepdim=[False, True], dynamic={"x": {2: "height"}})
prod = op(torch.prod, numbers(3, 4, low=1, high=3), dim=[0, -1], keepdim=[False, True], dtypes=ALL_DTYPES)
prod_of_large = op(
    lambda x, y: (x.prod(1), y.prod(-1), y.prod(0, keepdim=True)),
    given([[2**40 + 1, 3, -5], [7, 2**33 + 9, 1]]),
    given([[2.0**40 + 1, 3.0, -0.1], [0.7, 2.0**33 + 9, 1.0]], dtype=torch.float64),
)
prod_of_all = op(lambda x: (x.prod(), x.prod(dtype=torch.float64)), floats(3, 4))
nansum = op(lambda x: (torch.nansum(x, 1), torch.nanmean(x, 1)), given([[math.nan, 1.0, 2.0], [0.5, -1.0, math.nan]]))
count_nonzero = op(
    lambda x: (torch.count_nonzero(x), torch.count_nonzero(x, 1)),
    numbers(3, 4, low=-1, high=2, far=True),
    dtypes=ALL_DTYPES,
)
#: Over an empty axis: 0, NaN, 1, and -inf.
reduction_of_nothing = op(
    lambda x: (x.sum(1), x.mean(1), x.prod(1), x.logsumexp(1), x.any(1), x.all(1), x.norm(dim=1), x.var(1), x.sum(0)),
    floats(2, 0, 3),
)
#: An axis that is empty at another size only, and that is counted from the end.
reduction_of_what_becomes_nothing = op(
    lambda x: (
        x.sum(-2, keepdim=True),
        x.mean(-2),
        x.prod(-2),
        x.logsumexp(-2),
        x.any(-2),
        x.all(-2),
        x.norm(dim=-2, keepdim=True),
        x.var(-2),
        x.std(-2),
        x.nansum(-2, keepdim=True),
        x.nanmean(-2, keepdim=True),
        x.count_nonzero(-2),
    ),
    floats(2, 3, 4),
    dynamic={"x": {1: "length"}},
    sizes={"length": (0, 5)},
)
of_nothing_at_all = op(lambda x: (x.sum(), x.mean(), x.prod(), x.any(), x.all(), x.norm(), x.std()), floats(0))
reduction_of_a_scalar = op(
    lambda x: (
        x.sum(0),
        x.mean(),
        x.prod(-1),
        x.amax(0),
        x.max(0),
        x.argmax(),
        x.any(),
        x.logsumexp(0),
        x.norm(),
        x.cumsum(0),
    ),
    floats(),
)
sums_at_edges = op(lambda x: (x.sum(1), x.mean(1), x.prod(1), x.logsumexp(1), x.norm(dim=1), x.cumsum(1)), _EDGES)
moments_at_edges = op(
    lambda x: (x.var(1), x.std(0), x.count_nonzero(-1), x.any(1), x.all(-1), (x + x).count_nonzero(0)),
    _EDGES,
    dtypes=FLOATS,
)
reduction_into = op(
    lambda x: (torch.sum(x, 0, out=x.new_empty(4)), torch.max(x, 0, out=(x.new_empty(4), torch.empty(4).long()))),
    floats(3, 4),
)

# --- minimum and maximum with their indices ---------------------------------------------------------------------------

amax = op(torch.amax, distinct(2, 3, 4), dim=[(), 0, -1, (0, 2)], keepdim=[False, True], dtypes=NUMBERS)
amin = op(torch.amin, distinct(2, 3, 4), dim=[(), 0, -1, (0, 2)], keepdim=[False, True], dtypes=NUMBERS)
amax_of_bools = op(lambda x: (x.amax(0), x.amin(1), x.max(), x.max(0).values), bools(3, 4))
amax_dynamic = op(
    torch.amax, floats(2, 3, 4, special=(math.nan,)), dim=[-1, (0, 2)], dynamic=_LAST, dtypes=[torch.float32]
)
max_of_all = op(lambda x: (x.max(), x.min(), torch.aminmax(x)), distinct(3, 4), dtypes=NUMBERS)
max_ = op(torch.max, distinct(2, 3, 4), dim=[0, -1], keepdim=[False, True], dtypes=NUMBERS)
min_ = op(torch.min, distinct(2, 3, 4), dim=[1, -2], keepdim=[False, True], dtypes=NUMBERS)
max_parts = op(lambda x: (x.max(0).values, x.min(1).indices), distinct(3, 4), dynamic=BATCH)
aminmax = op(torch.aminmax, distinct(3, 4), dim=[0, -1], keepdim=[False, True])
argmax = op(torch.argmax, distinct(2, 3, 4), dim=[None, 0, -1], keepdim=[False, True], dtypes=NUMBERS)
argmin = op(torch.argmin, distinct(2, 3, 4), dim=[None, 1, -1], keepdim=[False, True], dtypes=NUMBERS)
argmax_dynamic = op(
    torch.argmax, floats(3, 4, special=(math.nan,)), dim=[None, 0, 1], dynamic=BATCH, dtypes=[torch.float32]
)
#: Other exporters are silently wrong about ties: torch returns the index of the first.
argmax_ties = op(
    lambda x: (x.argmax(), x.argmax(0), x.argmax(1), x.argmin(), x.argmin(1), x.max(1).indices),
    numbers(5, 6, low=0, high=3, far=True),
    dtypes=NUMBERS,
)
argmax_ties_dynamic = op(
    lambda x: (x.argmax(0), x.argmin(0), x.max(0), x.min(0)), numbers(6, 5, low=0, high=3), dynamic=BATCH
)
argmax_of_nan = op(
    lambda x: (x.argmax(1), x.argmin(1), x.argmax(-2), x.argmin(), x.max(1), x.min(-2), x.amax(1), x.amin(-1)),
    given(
        [
            [1.0, math.nan, 5.0, math.nan],
            [math.nan, 9.0, 2.0, 1.0],
            [4.0, 3.0, 2.0, math.nan],
            [1.0, 2.0, math.inf, 3.0],
        ]
    ),
    dtypes=WIDE_FLOATS,
)
reduction_extremes_at_edges = op(
    lambda x: (x.amax(1), x.amin(1), x.argmax(1), x.argmin(1)), given([[-math.inf] * 3, [math.inf] * 3])
)

# --- any and all ------------------------------------------------------------------------------------------------------

any_ = op(
    torch.any, numbers(2, 3, 4, low=0, high=2, far=True), dim=[0, -1, (0, 2)], keepdim=[False, True], dtypes=ALL_DTYPES
)
all_ = op(
    torch.all, numbers(2, 3, 4, low=0, high=2, far=True), dim=[0, -1, (0, 2)], keepdim=[False, True], dtypes=ALL_DTYPES
)
any_of_all = op(
    lambda x: (x.any(), x.all(), torch.any(x, ()), torch.all(x, ()), (x > 0).any(0), (x > -9).all()),
    numbers(3, 4),
    dynamic=BATCH,
)

# --- norms and moments ------------------------------------------------------------------------------------------------

norm = op(
    torch.norm, floats(3, 4), p=[0, 1, 2, 3, 0.5, -1, math.inf, -math.inf], dim=[None, 0, (0, 1)], keepdim=[False, True]
)
norm_dtypes = op(torch.norm, floats(3, 4), p=[1, 2, 3, math.inf], dim=1, dtypes=FLOATS)
#: Of halves, the powers are infinite, and the norms are not.
norm_large = op(torch.norm, floats(3, 4, low=50.0, high=200.0), p=[2, 3], dim=1, dtypes=FLOATS)
norm_spellings = op(
    lambda x: (
        torch.norm(x),
        x.norm(p=1),
        x.norm("fro"),
        x.norm(2, 0),
        x.norm(dtype=torch.float64),
        x.norm("fro", dim=(0, 1)),
    ),
    floats(3, 4),
)
vector_norm = op(
    torch.linalg.vector_norm,
    floats(2, 3, 4),
    rows=[
        {"ord": 3, "dim": (0, 2)},
        {"ord": math.inf},
        {"dim": -1, "keepdim": True},
        {"ord": 0, "dtype": torch.float64},
    ],
    dynamic=BATCH,
)
vector_norm_of_nan = op(
    torch.linalg.vector_norm,
    given([[2.0, math.nan, math.inf], [math.nan, 1.0, 2.0], [1.0, 3.0, 2.0]]),
    ord=[math.inf, -math.inf, 1, 3],
    dim=1,
    dtypes=FLOATS,
)
matrix_norm_of_any_size = op(
    lambda x: [torch.linalg.matrix_norm(x, ord) for ord in (1, 2, math.inf, "nuc")],
    floats(3, 4), dynamic={"x": {0: "rows", 1: "columns"}},
)  # fmt: skip
matrix_norm = op(torch.linalg.matrix_norm, floats(2, 3, 4), ord=["fro", 1, -1, math.inf])
logsumexp = op(torch.logsumexp, floats(2, 3, 4), dim=[0, -1, (0, 2)], keepdim=[False, True], dtypes=FLOATS)
logsumexp_of_integers = op(torch.logsumexp, ints(3, 4), dim=1)
logsumexp_large = op(torch.logsumexp, floats(3, 4, low=500.0, high=600.0), dim=1, dtypes=FLOATS)
var = op(torch.var, floats(2, 3, 4), dim=[None, 0, (0, 2)], correction=[0, 1, 2], keepdim=[False, True])
var_dynamic = op(torch.var, floats(3, 4, 5), dim=[0, (0, 2)], correction=[0, 1], dynamic=BATCH, sizes={"batch": [2, 7]})
std = op(torch.std, floats(2, 3, 4), dim=[None, -1], unbiased=[False, True], dtypes=FLOATS)
moments = op(lambda x: (torch.var_mean(x, 0), torch.std_mean(x, (0, 1)), x.std(), torch.var_mean(x)), floats(3, 4))
var_of_one = op(lambda x: (x.var(0), x.var(0, correction=0), x.std(0)), floats(1, 4))
#: The squares overflow float16.
var_of_large = op(
    lambda x: (x.var(1), x.std(1)), floats(3, 8, low=500.0, high=900.0), dtypes=[torch.float16, torch.bfloat16]
)

segments = op(
    lambda x, lengths, reduce: torch.segment_reduce(x, reduce, lengths=lengths, axis=0, unsafe=True),
    floats(5, 3), given([2, 0, 3]), reduce=["sum", "mean", "max", "min", "prod"],
    without_draws="torch does not check that the lengths add up to the number of rows",
)  # fmt: skip

# --- NaN along axes that are counted from the end, among more than 30 elements, in each dtype -------------------------

_NOT_FINITE = floats(1, 5, 7, special=(math.nan, math.inf, -math.inf))
_ROWS = {"x": {1: "rows"}}
reductions_of_nan = op(
    lambda x, f: tuple(of(each, dim) for of in f for each in (x, x.flip(1)) for dim in (-1, -2)),
    _NOT_FINITE,
    f=[
        (torch.sum, torch.mean, torch.prod),
        (torch.amax, torch.amin, torch.argmax, torch.argmin),
        (torch.max, torch.min),
        (torch.logsumexp, torch.nansum, torch.nanmean, torch.count_nonzero),
    ],
    dtypes=FLOATS,
    dynamic=_ROWS,
)
moments_of_nan = op(
    lambda x: (
        x.var(-1),
        x.std(-2),
        x.norm(dim=-1),
        x.norm(3, -2),
        torch.linalg.vector_norm(x, math.inf, -1),
        x.aminmax(dim=-1),
    ),
    floats(1, 5, 7, special=(math.nan,)),
    dtypes=FLOATS,
    dynamic=_ROWS,
    sizes={"rows": [2, 9]},
)
#: NaN is true, and all else is zero, or true.
truths_of_nan = op(
    lambda x: (x.any(-1), (x * 0).any(-1), (x * 0).any(-2, keepdim=True), (x * 0).any(), x.all(-1), x.all(-2), x.all()),
    _NOT_FINITE,
    dtypes=FLOATS,
    dynamic=_ROWS,
)
extremes_of_all_with_nan = op(
    lambda x: (x.max(), x.min(), x.aminmax(), x.argmax(), x.argmin(), x.sum(), x.mean(), x.prod(), x.count_nonzero()),
    _NOT_FINITE,
    dtypes=FLOATS,
    dynamic=_ROWS,
)
#: Whose sign no guard against NaN takes away.
extremes_of_negative_zero = op(
    lambda x: tuple(each.signbit() for each in (x.amax(-1), x.amin(-1), x.min(), x.max(1).values, x[0, 0].amax())),
    given([[-0.0, -0.0], [-0.0, 1.0], [-0.0, -1.0]]),
    dtypes=[torch.float32],
    without_nan="the sign of NaN has no meaning",
)
quantiles = op(
    torch.quantile,
    floats(3, 4),
    q=0.3,
    rows=[
        *({"dim": 1, "interpolation": each} for each in ("lower", "higher", "nearest", "midpoint")),
        {"dim": 0, "keepdim": True},
    ],
    dtypes=[torch.float32],
)
nanquantiles = op(
    torch.nanquantile,
    floats(3, 4, special=(math.nan,)),
    q=0.3,
    rows=[{"dim": 1, "interpolation": "higher"}, {"dim": 0, "keepdim": True}],
    dtypes=[torch.float32],
)
sums_in_another_dtype = op(
    lambda x: (
        x.nansum(1, dtype=torch.float64),
        x.nanmean(1, dtype=torch.float64),
        torch.linalg.norm(x, dtype=torch.float64),
        torch.linalg.matrix_norm(x, dtype=torch.float64),
        torch._foreach_norm([x], 1, torch.float64)[0],
    ),
    floats(3, 4),
)
std_mean_attributes = op(
    torch.std_mean, floats(3, 4), rows=[{"dim": 1, "keepdim": True}, {"dim": 0, "unbiased": False}]
)
mode_keepdim = op(
    torch.mode, numbers(3, 9, low=0, high=4), dim=-2, keepdim=True, dtypes=[torch.float32],
    without_nan="torch's sort decides which of the most frequent elements it finds, NaN among them",
)  # fmt: skip
spread_of_nothing = op(
    lambda x, f: f(x, dim=0),
    floats(2, 3),
    f=[torch.std, torch.var, torch.linalg.vector_norm, torch.linalg.norm, torch.trapezoid],
    dynamic=BATCH,
    sizes={"batch": [0, 5]},
)
