"""The strides of tensors that stand for the results of branches and loops."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from onnx_parity.exporter.graph.graph import Size, same_size

__all__ = ["common_strides"]

#: Of tensors with more axes, whose sizes differ, only those that are contiguous are compared.
_MOST_AXES = 5


def common_strides(tensors: Sequence[torch.Tensor], shape: Sequence[Size]) -> Sequence[Size] | None:
    """The strides of a tensor of this shape that lies in memory as all of these do; None if they lie differently."""
    first, *others = [_strides_as(each, shape) for each in tensors]
    if first is None or not all(other is not None and _are_same(shape, first, other) for other in others):
        return None
    return first


def _strides_as(tensor: torch.Tensor, shape: Sequence[Size]) -> Sequence[Size] | None:
    """The strides of a tensor, or those that it would have with a shape other than its own if it has no gaps."""
    if all(same_size(own, size) for own, size in zip(tensor.shape, shape, strict=True)):
        return tensor.stride()
    in_order = range(tensor.ndim - 1, -1, -1)
    for order in itertools.permutations(in_order) if tensor.ndim <= _MOST_AXES else [tuple(in_order)]:
        if _are_same(tensor.shape, tensor.stride(), _dense(tensor.shape, order)):
            return _dense(shape, order)
    return None


def _dense(shape: Sequence[Size], order: Sequence[int]) -> Sequence[Size]:
    """The strides without gaps, for an order of the axes, the innermost first."""
    strides: list[Size] = [1] * len(shape)
    step: Size = 1
    for axis in order:
        strides[axis], step = step, step * shape[axis]
    return strides


def _are_same(shape: Sequence[Size], one: Sequence[Size], other: Sequence[Size]) -> bool:
    """Whether strides are known to be the same; those of axes of one element do not matter."""
    return all(
        same_size(mine, theirs) or same_size(size, 1) for size, mine, theirs in zip(shape, one, other, strict=True)
    )
