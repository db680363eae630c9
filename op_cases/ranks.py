"""Order statistics (median), positions in sorted sequences (searchsorted), and counts of values (bincount, histc)."""

from __future__ import annotations

import math

import torch

from onnx_parity.harness.case import BATCH, NUMBERS, distinct, floats, given, ints, op

_GAPS = given([[3.0, math.nan, 1.0, 2.0], [math.nan] * 4, [math.inf, -math.inf, 0.0, math.nan], [4.0, 3.0, 2.0, 1.0]])

median = op(torch.median, distinct(3, 4, 5), dtypes=NUMBERS)
median_of_axis = op(torch.median, distinct(3, 4, 5), dim=[0, 1, -1], keepdim=[False, True], dynamic=BATCH)
nanmedian = op(torch.nanmedian, distinct(3, 5), rows=[{}, {"dim": 0}, {"dim": 1, "keepdim": True}])
median_with_gaps = op(lambda x, f: (f(x), f(x, 1).values), _GAPS, f=[torch.median, torch.nanmedian])
median_scalar = op(lambda x: (torch.median(x), *torch.median(x, 0)), floats())

_STEPS = given([-1.5, -0.5, 0.0, 0.5, 0.5, 2.0])
searchsorted = op(torch.searchsorted, _STEPS, floats(3, 4), right=[False, True], out_int32=[False, True])
searchsorted_rows = op(torch.searchsorted, given([[1, 3, 5, 7], [2, 4, 6, 8]]), ints(2, 3), side=["left", "right"])
searchsorted_sorter = op(
    lambda s, x: torch.searchsorted(s, x, sorter=torch.argsort(s)), distinct(6), floats(4), dtypes=[torch.float32]
)
searchsorted_edges = op(torch.searchsorted, _STEPS, given([math.nan, math.inf, -math.inf, 0.5]), right=[False, True])
bucketize = op(
    torch.bucketize, floats(3, 4), _STEPS, right=[False, True], out_int32=[False, True], dynamic={"x0": {0: "batch"}}
)
bucketize_number = op(lambda b: torch.bucketize(2, b), given([1, 2, 3]))
isin = op(torch.isin, ints(3, 4), ints(12), rows=[{}, {"invert": True}, {"assume_unique": True}])
isin_of_any_size = op(
    lambda x, y, invert: torch.isin(x.round(), y.round(), invert=invert),
    floats(4, 2),
    y=floats(3),
    invert=[False, True],
    dynamic={"x": {0: "rows"}, "y": {0: "tested"}},
    sizes={"rows": [1, 6], "tested": [0, 5]},
)
median_of_any_size = op(torch.median, floats(4, 2), dynamic={"x": {0: "rows"}}, sizes={"rows": [0, 1, 6]})
median_of_nothing = op(lambda x: (x.median(), x.nanmedian(), x.long().median()), floats(0, 2))

bincount = op(torch.bincount, ints(9, high=6), minlength=[0, 8], dtypes=[torch.int64, torch.int32, torch.uint8])
bincount_weights = op(torch.bincount, ints(9, high=6), floats(9, special=(math.inf,)), minlength=[0, 8])
bincount_of_nothing = op(torch.bincount, ints(0), minlength=[0, 3])
bincount_of_nothing_weighed = op(torch.bincount, ints(0), floats(0), minlength=[0, 3])
histc = op(
    torch.histc, floats(30), rows=[{"bins": 5, "min": -1, "max": 1}, {"bins": 4}, {"bins": 3, "min": 5, "max": 9}]
)
histc_of_whole_numbers = op(
    lambda x, **how: torch.histc(x.float(), **how),
    ints(5, 6, low=-2, high=9),
    rows=[
        {"bins": 4, "min": 0, "max": 3},
        {"bins": 4, "min": 0.5, "max": 3.5},
        {"bins": 4, "min": -1, "max": 7},
        {"bins": 1, "min": 2, "max": 2},
        {"bins": 3},
    ],
    dynamic=BATCH,
)
histc_alike = op(lambda x: torch.histc(x * 0 + 2.0, bins=4), floats(5))
