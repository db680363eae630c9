"""The sets of dtypes that declarations name: `op(torch.sin, floats(3, 4), dtypes=FLOATS)`."""

from __future__ import annotations

import torch

from onnx_parity.harness.axes import FLOATING

#: Every floating dtype. A declaration that names no dtypes is run in float32 outside the full tier.
FLOATS = tuple(getattr(torch, dtype) for dtype in FLOATING)
#: The formats of IEEE 754, for operators that have no bfloat16 in ONNX or onnxruntime.
IEEE_FLOATS = (torch.float32, torch.float64, torch.float16)
#: For operators whose results in halves have too few digits to compare, or that torch does not compute in halves.
WIDE_FLOATS = (torch.float32, torch.float64)

SIGNED_INTS = (torch.int64, torch.int32, torch.int16, torch.int8)
INTS = (*SIGNED_INTS, torch.uint8)
NUMBERS = (*FLOATS, *INTS)
ALL_DTYPES = (*NUMBERS, torch.bool)

#: A number or a boolean of every width, for operators that only move elements. `MOVED_NUMBERS` are for operators that
#: also add the elements that they move.
MOVED_NUMBERS = (*IEEE_FLOATS, torch.int64, torch.int32, torch.int8, torch.uint8)
MOVED_DTYPES = (*MOVED_NUMBERS, torch.bool)
