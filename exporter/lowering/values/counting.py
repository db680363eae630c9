"""Indices that count through an axis, 0, 1, 2, ..., as `torch.arange` makes them: what they select is in order."""

from __future__ import annotations

import torch

from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["counted_axis"]


def counted_axis(index: Value) -> int | None:
    """The one axis along which an index counts from 0, if its other axes have size 1; None for any other index.

    It is counted from the last axis, -1, as broadcasting does. A lone 0 counts along its first axis.
    """
    if index.counts is not None:
        return index.counts
    known = index.constant
    if known is None or not known.ndim or known.dtype.is_floating_point:
        return None
    long = [axis - known.ndim for axis, size in enumerate(known.shape) if size != 1]
    if len(long) > 1 or not torch.equal(known.reshape(-1), torch.arange(known.numel(), dtype=known.dtype)):
        return None
    return long[0] if long else -known.ndim
