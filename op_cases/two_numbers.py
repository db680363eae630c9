"""Elementwise functions of two tensors beyond arithmetic, at zeros of both signs and infinities too."""

from __future__ import annotations

import math

import torch

from onnx_parity.harness.case import FLOATS, floats, given, ints, numbers, op
from onnx_parity.op_cases.function_sweeps import of_two

_EDGES = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 3e38, 1e-30]
#: Every pair of these.
_PAIRS = given([[edge] for edge in _EDGES]), given([_EDGES])

atan2 = op(torch.atan2, floats(3, 4), floats(4), dtypes=FLOATS, dynamic={"x0": {0: "batch"}})
atan2_of_integers = op(torch.atan2, numbers(3, 4), numbers(3, 4), dtypes=[torch.int64])
hypot = op(torch.hypot, floats(3, 4), floats(4), dtypes=FLOATS)
copysign = op(torch.copysign, floats(3, 4), floats(4), dtypes=FLOATS)
copysign_number = op(torch.copysign, floats(3, 4), other=[2.0, -0.0])
ldexp = op(torch.ldexp, floats(3, 4), ints(4, low=-3, high=4), dtypes=FLOATS, dynamic={"x0": {0: "batch"}})
two_numbers_at_edges = op(of_two, *_PAIRS, f=[torch.atan2, torch.hypot, torch.copysign])
two_in_place = op(lambda x, y: (x.clone().atan2_(y), x.clone().hypot_(y), x.clone().copysign_(y)), floats(3), floats(3))
