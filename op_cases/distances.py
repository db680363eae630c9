"""Distances between the rows of matrices."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from onnx_parity.harness.case import WIDE_FLOATS, floats, op

#: Why some cases do not run with a NaN.
_NAN_BY_KERNEL = "torch's kernels of the greatest difference differ about NaN"

_ORDERS = [0.0, 1.0, 2.0, 3.5, math.inf]

cdist = op(
    torch.cdist,
    floats(2, 4, 3),
    floats(2, 5, 3),
    p=_ORDERS,
    dtypes=WIDE_FLOATS,
    dynamic={"x0": {0: "batch", 1: "rows"}, "x1": {0: "batch"}},
    without_nan=_NAN_BY_KERNEL,
)
cdist_broadcast = op(torch.cdist, floats(4, 3), floats(2, 5, 3), dtypes=WIDE_FLOATS)
cdist_large = op(torch.cdist, floats(30, 8), floats(28, 8), dtypes=WIDE_FLOATS)
pdist_of_any_rows = op(F.pdist, floats(5, 3), dynamic={"x": {0: "rows"}}, sizes={"rows": [2, 9]}, tier="default")
pdist = op(F.pdist, floats(5, 3), p=_ORDERS, dtypes=WIDE_FLOATS, without_nan=_NAN_BY_KERNEL)
dist = op(torch.dist, floats(3, 4), floats(4), p=_ORDERS)
distances_with_eps = op(F.pairwise_distance, floats(3, 4), floats(3, 4), p=[1.0, 2.0], eps=0.3)
