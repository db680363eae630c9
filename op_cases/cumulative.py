"""Cumulative operators: cumsum, cumprod, cummax, cummin, logcumsumexp."""

from __future__ import annotations

import math

import torch

from onnx_parity.harness.case import ALL_DTYPES, BATCH, FLOATS, floats, given, numbers, op

_EDGES = given([[1.0, math.nan, 2.0, math.nan], [-math.inf, -math.inf, 0.0, math.inf], [math.inf, 1.0, 3.0, 0.0]])

cumsum = op(torch.cumsum, numbers(2, 3, 5), dim=[0, 1, -1], dtypes=ALL_DTYPES)
cumsum_to = op(torch.cumsum, numbers(3, 4), dim=1, dtype=[torch.float64, torch.int32])
cumsum_dynamic = op(torch.cumsum, floats(3, 4), dim=[0, 1], dynamic=BATCH)
cumsum_spellings = op(lambda x: (x.cumsum(0), (x * 1).cumsum_(1)), floats(3, 4))
cumprod = op(torch.cumprod, numbers(2, 5, low=1, high=3, far=True), dim=[0, -1], dtypes=ALL_DTYPES)
cumprod_to = op(torch.cumprod, numbers(3, 4), dim=1, dtype=torch.float64, dtypes=[torch.int32])
#: With ties: torch returns the index of the last.
cummax = op(torch.cummax, numbers(3, 7), dim=[0, -1], dtypes=ALL_DTYPES)
cummin = op(torch.cummin, numbers(3, 7), dim=[0, -1], dtypes=ALL_DTYPES)
cummax_dynamic = op(torch.cummax, numbers(3, 7), dim=1, dtypes=[torch.float32], dynamic=BATCH)
logcumsumexp = op(torch.logcumsumexp, floats(3, 7, low=-40.0, high=40.0), dim=[0, -1], dtypes=FLOATS)
running_at_edges = op(lambda x, f: f(x, 1), _EDGES, f=[torch.cumsum, torch.cummax, torch.cummin, torch.logcumsumexp])
running_scalar = op(lambda x, f: f(x, 0), floats(), f=[torch.cumsum, torch.cummax, torch.cummin, torch.logcumsumexp])
running_along_dynamic = op(
    lambda x, f: f(x, 0),
    numbers(3, 4),
    f=[torch.cumsum, torch.cumprod, torch.cummax, torch.cummin, torch.logcumsumexp],
    dynamic=BATCH,
    sizes={"batch": [1, 9, 0]},
)
running_at_edges_along_dynamic = op(
    lambda x, f: f(x, 1),
    floats(3, 5, special=(math.inf, -math.inf, math.nan)),
    f=[torch.cummax, torch.cummin, torch.logcumsumexp],
    dynamic={"x": {1: "length"}},
)
#: NaN along axes that are counted from the end, among more than 30 elements, in each dtype.
running_over_nan = op(
    lambda x, f: (f(x, -1), f(x.flip(1), -2)),
    floats(1, 5, 7, special=(math.nan, math.nan, math.inf)),
    f=[torch.cumsum, torch.cumprod, torch.cummax, torch.cummin, torch.logcumsumexp],
    dtypes=FLOATS,
    dynamic={"x": {1: "rows"}},
)
cumulative_of_bools = op(
    lambda x: (x.cumprod(0), x.cumprod(-1), x.cumsum(-1)),
    given([[True, True, False, True], [True, True, True, False], [False, True, True, True]]),
)
