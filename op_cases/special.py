"""Special functions, in each range where they are computed differently, and at the ends of their domains."""

from __future__ import annotations

import math

import torch

from onnx_parity.harness.case import BATCH, FLOATS, WIDE_FLOATS, floats, given, ints, op
from onnx_parity.op_cases.function_sweeps import of_one

_EDGES = given([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 1e-6, 0.5])

erfc = op(torch.erfc, floats(3, 40, low=-4.0, high=6.0), dtypes=FLOATS, dynamic=BATCH)
erfinv = op(torch.erfinv, floats(3, 40, low=-0.99, high=0.99), dtypes=WIDE_FLOATS, dynamic=BATCH)
erfinv_near_ends = op(torch.erfinv, given([0.9999, -0.99999, 0.999999, 1 - 6e-8]))
lgamma = op(
    torch.lgamma,
    floats(3, 40, low=-6.0, high=30.0),
    dtypes=FLOATS,
    tolerance={torch.float64: 1e-14},
    because="nine terms of Lanczos' approximation have an error of 1e-15, absolute where the function crosses 0",
    dynamic=BATCH,
)
lgamma_large = op(torch.lgamma, given([1e3, 1e6, 3e30, 1e-3, 1e-20]))
digamma = op(torch.digamma, floats(3, 40, low=-6.0, high=30.0), dtypes=FLOATS, dynamic=BATCH)
i0 = op(torch.i0, floats(3, 40, low=-20.0, high=20.0), dtypes=FLOATS, dynamic=BATCH)
#: float32 overflows at 88.7 in torch, although the result would fit until 91.9.
i0_large = op(torch.i0, given([8.0, -8.0, 50.0, 88.0, -89.0, 91.0, 300.0]), dtypes=WIDE_FLOATS)
i0e = op(torch.special.i0e, floats(3, 40, low=-20.0, high=20.0), dtypes=FLOATS, dynamic=BATCH)
i0e_large = op(torch.special.i0e, given([8.0, -8.0, 100.0, -1e6, 1e30]), dtypes=WIDE_FLOATS)
i0_of_integers = op(of_one, ints(3, 4, low=-9, high=10), f=[torch.i0, torch.special.i0e])
special_at_edges = op(
    of_one,
    _EDGES,
    f=[torch.erfc, torch.erfinv, torch.lgamma, torch.digamma, torch.angle, torch.i0, torch.special.i0e],
)
lgamma_of_counts = op(lambda n: torch.lgamma(n).div(3, rounding_mode="floor"), ints(3, 4, low=1, high=9))
multigamma = op(torch.mvlgamma, floats(3, 4, low=3.0, high=9.0), p=[1, 3])
