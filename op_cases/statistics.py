"""Counts of values (bincount, histc) and histograms."""

from __future__ import annotations

import math

import torch

from onnx_parity.harness.case import BATCH, FLOATS, floats, given, ints, numbers, op

bincount = op(torch.bincount, ints(9, high=6), minlength=[0, 8], dtypes=[torch.int64, torch.int32, torch.uint8])
bincount_weights = op(torch.bincount, ints(9, high=6), floats(9, special=(math.inf,)), minlength=[0, 8])
bincount_of_nothing = op(torch.bincount, ints(0), minlength=[0, 3])
bincount_of_nothing_weighed = op(torch.bincount, ints(0), floats(0), minlength=[0, 3])
histc = op(
    torch.histc, floats(5, 1, 7), rows=[{"bins": 5, "min": -1, "max": 1}, {"bins": 4}, {"bins": 3, "min": 5, "max": 9}]
)
#: Tenths, of which many are at the bounds of intervals, where rounding decides.
histc_at_bounds = op(
    lambda x, **how: torch.histc(x / 10, **how),
    numbers(12, 9, low=-40, high=60),
    rows=[{"bins": 30, "min": -3, "max": 3}, {"bins": 33, "min": -4, "max": 5.9}, {"bins": 33}],
    dtypes=FLOATS,
)
histc_of_whole_numbers = op(
    lambda x, **how: torch.histc(x.float(), **how),
    ints(5, 7, low=-2, high=9),
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

# --- histograms -------------------------------------------------------------------------------------------------------

_EDGES = given([-2.0, -0.5, 0.0, 1.5])


def counted(x: torch.Tensor, bins: int, low: float, high: float, density: bool = False) -> tuple[torch.Tensor, ...]:
    return tuple(torch.histogram(x, bins, range=(low, high), density=density))


histogram = op(counted, floats(3, 7), bins=[4], low=-2.0, high=2.0, density=[False, True])
histogram_of_its_range = op(lambda x: tuple(torch.histogram(x, 5)), floats(20))
histogram_of_weights = op(lambda x, w: tuple(torch.histogram(x, 3, range=(-1, 1), weight=w)), floats(9), floats(9))
histogram_at_edges = op(lambda x, edges: torch.histogram(x, edges).hist, numbers(12, low=-3, high=3), _EDGES)
histogram_in_two = op(
    lambda x: torch.histogramdd(x, [3, 2], range=[-2.0, 2.0, -1.0, 1.0], density=True).hist, floats(11, 2)
)
