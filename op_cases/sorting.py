"""Sorting, top-k, the k-th and the most frequent value, unique values, medians, and places in sorted sequences."""

from __future__ import annotations

import math

import torch

from onnx_parity.harness.case import BATCH, FLOATS, NUMBERS, distinct, floats, given, ints, numbers, op

#: Why some cases do not run with a NaN.
_NAN_UNSORTED = "a sequence with NaN between its numbers has no order"

ORDERED = [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
SPECIAL = (float("nan"), float("inf"), float("-inf"))

topk = op(torch.topk, distinct(5, 6), k=[0, 1, 3, 5], largest=[True, False], dtypes=ORDERED)
topk_dims = op(torch.topk, distinct(5, 6), k=2, dim=[0, 1, -2], sorted=[True, False])
topk_scalar = op(torch.topk, floats(), k=1)
topk_dynamic = op(torch.topk, distinct(3, 6), k=2, dynamic=BATCH)
topk_by_size = op(lambda x: x.topk(x.shape[0] - 1, 0), distinct(4, 3), dynamic=BATCH, sizes={"batch": [2, 6]})
topk_special = op(torch.topk, floats(3, 6, special=SPECIAL), k=[2, 6], largest=[True, False])
sort = op(
    torch.sort,
    distinct(3, 5),
    rows=[{}, {"dim": 0}, {"descending": True}, {"dim": 0, "descending": True}],
    dtypes=ORDERED,
)
sort_stable = op(torch.sort, numbers(4, 9), stable=True, descending=[True, False], dtypes=[*ORDERED, torch.bool])
sort_stable_dynamic = op(
    lambda x, descending: (
        tuple(torch.sort(x, dim=0, descending=descending, stable=True)),
        torch.argsort(x, dim=0, descending=descending, stable=True),
    ),
    numbers(9, 4),
    descending=[True, False],
    dynamic=BATCH,
)
sort_special = op(torch.sort, floats(3, 6, special=SPECIAL), descending=[True, False], stable=True)
#: In either order, because numbers that are equal in fewer bits keep theirs.
sort_wide_ints = op(
    lambda x, descending: [
        found for each in (x, x.flip(0)) for found in torch.sort(each, dim=-1, descending=descending)
    ],
    given([2**62 + 1, -(2**62), 5, 2**62, -5, 2**32, -(2**32) - 1]),
    descending=[True, False],
)
sort_dynamic = op(torch.sort, distinct(3, 5), dim=[0, 1], dynamic=BATCH)
sort_scalar = op(torch.sort, floats())
sort_nothing = op(torch.sort, floats(0, 3), dim=[0, 1])
argsort = op(torch.argsort, distinct(3, 5), dim=[0, -1], descending=[True, False])
argsort_stable = op(torch.argsort, numbers(4, 9), stable=True)
msort = op(torch.msort, distinct(3, 5))
kthvalue = op(torch.kthvalue, distinct(3, 5), k=[1, 3, 5], keepdim=[True, False])
kthvalue_of_blocks = op(torch.kthvalue, distinct(2, 3, 4), k=2, dim=[-1, -2])
kthvalue_dim = op(
    torch.kthvalue, distinct(3, 5), k=2, dim=[0, -1], dynamic={"x": {1: "columns"}}, sizes={"columns": [2, 9]}
)
unique = op(
    torch.unique,
    numbers(4, 5),
    rows=[{}, {"return_inverse": True}, {"return_counts": True}, {"return_inverse": True, "return_counts": True}],
    dtypes=[*ORDERED, torch.bool],
)
unique_special = op(torch.unique, given([1.0, float("inf"), float("nan"), 1.0, -0.0, 0.0]), return_inverse=True)
unique_dim = op(
    torch.unique,
    numbers(6, 2, low=0, high=2),
    dim=[0, 1],
    return_inverse=True,
    return_counts=True,
    dtypes=[torch.float32, torch.int64, torch.int32],
    without_nan=_NAN_UNSORTED,
)
unique_dynamic = op(torch.unique, numbers(4, 5), return_counts=True, dynamic=BATCH)
unique_in_turn = op(
    lambda x: (torch.unique(x, return_inverse=True), torch.unique(x[:2] * 2, return_inverse=True, return_counts=True)),
    numbers(4, 5), dynamic=BATCH,
)  # fmt: skip
repeat_interleave_of_counts = op(
    lambda n: (torch.repeat_interleave(n), torch.repeat_interleave(n[1:])),
    ints(4, low=0, high=3), dynamic=BATCH,
)  # fmt: skip
unique_consecutive = op(
    torch.unique_consecutive, numbers(12, low=0, high=2), rows=[{}, {"return_inverse": True, "return_counts": True}]
)
unique_consecutive_dim = op(
    torch.unique_consecutive,
    given([[0, 0, 1, 1, 0], [0, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 1, 1, 0]]),
    dim=[0, -1],
    return_counts=True,
)
nonzero_of_two = op(
    lambda x: (x.nonzero(), (x > 0).nonzero(), x.flip(0).nonzero()), given([[0.0, 1.0, 2.0], [0.0, 0.0, 3.0]]),
    dtypes=NUMBERS,
)  # fmt: skip
consecutive_columns = op(
    lambda x: torch.unique_consecutive(x, dim=1), given([[0.0, 0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0, 2.0]]),
    dtypes=NUMBERS,
)  # fmt: skip

# --- medians and places in sorted sequences ---------------------------------------------------------------------------

_GAPS = given([[3.0, math.nan, 1.0, 2.0], [math.nan] * 4, [math.inf, -math.inf, 0.0, math.nan], [4.0, 3.0, 2.0, 1.0]])

median = op(torch.median, distinct(3, 4, 5), dtypes=NUMBERS)
median_of_axis = op(torch.median, distinct(3, 4, 5), dim=[0, 1, -1], keepdim=[False, True], dynamic=BATCH)
nanmedian = op(torch.nanmedian, distinct(3, 5), rows=[{}, {"dim": 0}, {"dim": 1, "keepdim": True}])
median_with_gaps = op(lambda x, f: (f(x), f(x, 1).values, f(x, -2).values), _GAPS, f=[torch.median, torch.nanmedian])
median_scalar = op(lambda x: (torch.median(x), *torch.median(x, 0)), floats())

_STEPS = given([-1.5, -0.5, 0.0, 0.5, 0.5, 2.0])
#: Some of them steps, of which `right` decides.
_AMONG = floats(3, 4, special=(0.5, -0.5, 2.0))
searchsorted = op(
    torch.searchsorted, _STEPS, _AMONG, right=[False, True], out_int32=[False, True], without_nan=_NAN_UNSORTED
)
_FAR = 2**40
searchsorted_rows = op(
    torch.searchsorted,
    given([[_FAR + n for n in (1, 3, 5, 7)], [_FAR + n for n in (2, 4, 6, 8)]]),
    ints(2, 3, low=_FAR, high=_FAR + 10),
    side=["left", "right"],
)
searchsorted_sorter = op(
    lambda s, x: torch.searchsorted(s, x, sorter=torch.argsort(s)), distinct(6), floats(4), dtypes=[torch.float32]
)
searchsorted_edges = op(
    torch.searchsorted,
    _STEPS,
    given([math.nan, math.inf, -math.inf, 0.5]),
    right=[False, True],
    without_nan=_NAN_UNSORTED,
)
bucketize = op(
    torch.bucketize, _AMONG, _STEPS, right=[False, True], out_int32=[False, True], dynamic={"x0": {0: "batch"}}
)
unique_consecutive_of_any_size = op(
    lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
    numbers(8, low=0, high=2),
    dynamic=BATCH,
    sizes={"batch": [0, 1, 11]},
)
bucketize_number = op(lambda b: torch.bucketize(2, b), given([1, 2, 3]))
median_of_any_size = op(
    lambda x: (x.median(), x[:, 0].median()), floats(4, 2), dynamic={"x": {0: "rows"}}, sizes={"rows": [0, 1, 6]}
)
median_of_nothing = op(lambda x: (x.median(), x.nanmedian(), x.long().median()), floats(0, 2))

mode = op(
    lambda x, dim: tuple(torch.mode(x, dim)), numbers(5, 6, low=0, high=3), dim=[0, -1], without_nan=_NAN_UNSORTED
)

# --- NaN along axes that are counted from the end, among more than 30 elements, in each dtype -------------------------


def _sorts(x: torch.Tensor) -> object:
    return torch.sort(x, dim=-1, stable=True), torch.sort(x, dim=-2, descending=True, stable=True), torch.msort(x)


def _selections(x: torch.Tensor) -> object:
    return x.topk(3, -1), x.topk(2, -2, largest=False), x.kthvalue(7, -1), x.kthvalue(2, -2)


def _medians(x: torch.Tensor) -> object:
    return x.median(), x.median(-1).values, x.median(-2).values, x.nanmedian(), x.nanmedian(-1).values


order_of_nan = op(
    lambda x, f: (f(x), f(x.flip(1))),
    floats(1, 5, 7, special=(math.nan,)),
    f=[_sorts, _selections, _medians],
    dtypes=FLOATS,
    dynamic={"x": {1: "rows"}},
    sizes={"rows": [2, 9]},
)
places_of_nan = op(
    lambda x, steps, right: (torch.bucketize(x, steps, right=right), torch.searchsorted(steps, x.flip(0), right=right)),
    floats(5, 7, special=(math.nan, math.inf, -math.inf)),
    given([-1.0, 0.5, 2.0]),
    right=[False, True],
    dtypes=FLOATS,
    dynamic={"x0": {0: "rows"}},
)
#: torch searches by halves: what it finds beside NaN depends on how many there are and where the halves begin.
places_beside_nan = op(
    lambda x, y: tuple(
        found
        for ends in (0, 1, 2, 4, 7)
        for steps in [torch.cat([torch.sort(y).values, torch.full((ends,), math.nan)])]
        for found in (torch.bucketize(x, steps), torch.searchsorted(steps.expand(3, -1), x, right=True))
    ),
    floats(3, 6, special=(math.nan, math.inf, -math.inf)),
    floats(9, special=(math.nan,) * 3),
    dtypes=[torch.float32],
    dynamic={"x1": {0: "steps"}},
    sizes={"steps": [0, 1, 2, 5, 11]},
)
#: Equal elements of each dtype: the first of them is found.
ties_of_each_dtype = op(
    lambda x: (
        x.max(-1).indices, x.min(-1).indices, x.argmax(-1), x.argmin(-1),
        *x.sort(dim=-1, stable=True), *x.sort(dim=-1, descending=True, stable=True),
    ),
    numbers(3, 12, low=0, high=3),
    dtypes=NUMBERS,
    dynamic={"x": {1: "columns"}},
    sizes={"columns": [9, 20]},
)  # fmt: skip
#: Numbers that are equal in fewer bits, as those that are looked up and as bounds.
places_of_far_numbers = op(
    lambda x, y, right: (
        torch.bucketize(x + y[0], y.sort().values, right=right),
        torch.searchsorted(y.sort().values, x + y[1], right=right),
    ),
    numbers(2, 3, low=-1, high=2),
    distinct(7),
    right=[False, True],
    dtypes=[*FLOATS, torch.int64],
)
