"""Reductions of segments of an axis, and those of all elements that torch asks in its checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.registry.recorded import decomposition_of

#: For each way of reducing, what an empty segment has.
_NEUTRAL = {"sum": 0.0, "mean": 0.0, "max": float("-inf"), "min": float("inf"), "prod": 1.0}


@decomposition_of("aten::_is_all_true")
def is_all_true(self: torch.Tensor) -> torch.Tensor:
    return self.all()


@decomposition_of("aten::_is_any_true")
def is_any_true(self: torch.Tensor) -> torch.Tensor:
    return self.any()


@decomposition_of("aten::_functional_assert_async.msg", why="a model cannot express checks while it runs")
def functional_assert(self: torch.Tensor, assert_msg: str, dep_token: torch.Tensor) -> torch.Tensor:
    return dep_token.clone()


@decomposition_of("aten::_assert_tensor_metadata", why="torch's for tensors without data compares a list with a shape")
def assert_metadata(
    a: torch.Tensor, size: Sequence[Size] | None = None, stride: object = None, dtype: torch.dtype | None = None,
    **others: object,
) -> None:  # fmt: skip
    if size is not None and tuple(a.shape) != tuple(size):
        raise RuntimeError(f"Tensor sizes mismatch! Expected: {list(size)}, Got: {list(a.shape)}")
    if dtype is not None and a.dtype is not dtype:
        raise RuntimeError(f"Tensor dtypes mismatch! Expected: {dtype}, Got: {a.dtype}")


@decomposition_of("aten::segment_reduce")
def segment_reduce(
    data: torch.Tensor, reduce: str, *, lengths: torch.Tensor | None = None, indices: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None, axis: int = 0, unsafe: bool = False, initial: float | None = None,
) -> Any:  # fmt: skip
    """Every segment is a mask over the axis, under which all else is neutral."""
    if lengths is not None:
        stops = lengths.cumsum(-1)
        starts = stops - lengths
    elif offsets is not None:
        starts, stops = offsets[..., :-1], offsets[..., 1:]
    else:
        return NotImplemented
    axis = axis % data.dim()
    places = torch.arange(data.shape[axis], device=data.device)
    inside = (places >= starts.unsqueeze(-1)) & (places < stops.unsqueeze(-1))
    inside = inside.reshape([*inside.shape, *[1] * (data.dim() - axis - 1)])
    first = _NEUTRAL[reduce] if initial is None else float(initial)
    kept = torch.where(inside, data.unsqueeze(axis), _NEUTRAL[reduce])
    if reduce == "max":
        return kept.amax(axis + 1).clamp_min(first)
    if reduce == "min":
        return kept.amin(axis + 1).clamp_max(first)
    if reduce == "prod":
        return kept.prod(axis + 1) * first
    total = kept.sum(axis + 1) + first
    if reduce == "sum":
        return total
    count = inside.sum(axis + 1).to(data.dtype)
    return torch.where(count == 0, torch.nan if initial is None else first, total / count.clamp_min(1))
