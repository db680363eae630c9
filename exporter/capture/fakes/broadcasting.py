"""Shapes that broadcast together, for which torch only says what holds for the sizes of the example."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from onnx_parity.exporter.capture.fakes.pointwise import Metadata
from onnx_parity.exporter.capture.graph.graph import Size

__all__ = ["broadcast_together", "has_unknown_sizes", "meet_known_sizes"]


def broadcast_together(func: OpOverload, args: Sequence[Any]) -> tuple[Any, ...] | None:
    """Arguments of a pointwise operator with the shape that they broadcast to wherever they do. None for another
    operator, and where they never do."""
    if torch.Tag.pointwise not in func.tags:
        return None
    tensors = [each for each in args if isinstance(each, torch.Tensor) and each.ndim]
    rank = max((tensor.ndim for tensor in tensors), default=0)
    shape: list[Size] = []
    for axis in range(-rank, 0):
        size = _common([tensor.shape[axis] for tensor in tensors if tensor.ndim >= -axis])
        if size is None:
            return None
        shape.append(size)
    return tuple(each.new_empty(shape) if isinstance(each, torch.Tensor) and each.ndim else each for each in args)


def meet_known_sizes(func: OpOverload, args: Sequence[Any], metadata_of: Callable[[torch.Tensor], Metadata]) -> bool:
    """Whether a dynamic size of one argument of a pointwise operator meets a known one of another.

    torch takes either as the size of the result, because they are equal in the example. But the dynamic one may be 1.
    """
    if torch.Tag.pointwise not in func.tags:
        return False
    shapes = [metadata_of(each).shape for each in args if isinstance(each, torch.Tensor)]
    if len(shapes) < 2 or all(type(size) is int for shape in shapes for size in shape):
        return False
    for sizes in itertools.zip_longest(*map(reversed, shapes), fillvalue=1):
        known = [size for size in sizes if type(size) is int]
        if len(known) < len(sizes) and any(size != 1 for size in known):
            return True
    return False


def has_unknown_sizes(args: Sequence[Any]) -> bool:
    """Whether there are sizes among those of the arguments that the example does not tell."""
    sizes = (size for each in args if isinstance(each, torch.Tensor) for size in each.shape)
    return any(not isinstance(size, int) and not size.node.shape_env.is_in_example(size) for size in sizes)


def _common(sizes: Sequence[Size]) -> Size | None:
    """The size that these broadcast to. A dynamic size beside a known one is that, or 1."""
    known = {size for size in sizes if isinstance(size, int)} - {1}
    if known:
        return known.pop() if len(known) == 1 else None
    dynamic = [size for size in sizes if not isinstance(size, int)]
    size: Size = 1
    for each in dynamic:
        size = each if isinstance(size, int) or each.node.expr == size.node.expr else torch.sym_max(size, each)
    return size
