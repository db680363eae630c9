"""Softmax of nested tensors."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.kinds.nested.jagged import Jagged
from onnx_parity.exporter.kinds.nested.nested import Function, Nested, refused
from onnx_parity.exporter.kinds.nested.strided import Strided


@Jagged.rule("softmax", "log_softmax", "softmin")
@Strided.rule("softmax")
def _softmax(func: Function, nt: Jagged | Strided, dim: int, *_: Any, **options: Any) -> Nested:
    dtype = options.get("dtype")
    of = getattr(torch, func.__name__, F.softmin)
    if isinstance(nt, Strided) or dim % nt.ndim != nt._ragged_idx:
        return nt.apply(of, nt.axis(dim, func.__name__), dtype=dtype)
    if func.__name__ != "softmax" or nt.lengths() is not None:
        raise refused(f"{func.__name__} along its ragged axis")
    batch = nt.padded(-torch.inf, nt._get_max_seqlen())
    return nt.of_batch(of(batch, nt._ragged_idx, dtype=dtype))
