"""Normalizations of nested tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.kinds.nested.jagged import Jagged
from onnx_parity.exporter.kinds.nested.nested import Function, Nested, refused
from onnx_parity.exporter.kinds.nested.strided import Strided


@Jagged.rule("layer_norm", "rms_norm")
@Strided.rule("layer_norm")
def _norm(func: Function, nt: Jagged | Strided, normalized_shape: Sequence[Any], *args: Any, **options: Any) -> Nested:
    if isinstance(nt, Strided) or len(normalized_shape) < nt.ndim - nt._ragged_idx:
        return nt.apply(func, normalized_shape, *args, **options)
    if func.__name__ == "layer_norm" and len(normalized_shape) == nt.ndim - 1 > 1 and nt._ragged_idx == 1:
        return _layer_norm_of_rows(nt, *args, **options)
    raise refused(f"{func.__name__} over its ragged axis")


def _layer_norm_of_rows(nt: Jagged, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Jagged:
    """Whole rows, whose number of elements differs. There are no weights, which would differ in size too."""
    if weight is not None or bias is not None or nt.lengths() is not None:
        raise refused("layer_norm over its ragged axis, with weights or with other values between its rows")
    longest = nt.longest()
    batch = nt.padded(0, longest)
    axes = list(range(1, nt.ndim))
    lengths = nt.lengths_of_rows().reshape([-1] + [1] * len(axes))
    place = torch.arange(longest, device=nt.device).reshape([-1] + [1] * (len(axes) - 1))
    count = lengths * math.prod(nt.values().shape[1:])
    mean = batch.sum(axes, keepdim=True) / count
    centred = torch.where(place < lengths, batch - mean, 0)
    variance = centred.square().sum(axes, keepdim=True) / count
    return nt.of_batch(centred / (variance + eps).sqrt())
