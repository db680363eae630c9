"""Shapes that broadcast together, for which torch only says what holds for the sizes of the example."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.graph.graph import Size, broadcast_size
from onnx_parity.exporter.recording.fakes.metadata import describe
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.symbols import Symbols

__all__ = ["DynamicSizes", "broadcast_together", "has_unknown_sizes", "sizes_met"]


class DynamicSizes(Enum):
    """Where the dynamic sizes are from that an operator broadcasts with known ones.

    torch takes both as equal, as they are in the example, though a dynamic one may be 1.
    """

    #: From the axes of inputs. torch assumes that they are equal, which may fix an axis.
    OF_INPUTS = auto()
    #: From values. torch would expand them to the known ones, and so take them as equal everywhere.
    OF_VALUES = auto()


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
    return tuple(_with_sizes(each, shape) if isinstance(each, torch.Tensor) and each.ndim else each for each in args)


def _with_sizes(tensor: torch.Tensor, shape: Sequence[Size]) -> torch.Tensor:
    """A tensor that lies in memory as this one, with the sizes of a shape for all axes but those of one element."""
    own = tensor.shape
    sizes = [
        1 if type(size) is int and size == 1 else other for size, other in zip(own, shape[-len(own) :], strict=True)
    ]
    return tensor.new_empty_strided(sizes, tensor.stride())


def sizes_met(func: OpOverload, args: Sequence[Any], symbols: Symbols) -> DynamicSizes | None:
    """The dynamic sizes of a pointwise operator's arguments along axes where another has a known size, or of which one
    depends on values and another is not the same, if any."""
    if torch.Tag.pointwise not in func.tags:
        return None
    shapes = [describe(each).shape for each in args if isinstance(each, torch.Tensor)]
    if len(shapes) < 2 or all(type(size) is int for shape in shapes for size in shape):
        return None
    found = None
    for sizes in itertools.zip_longest(*map(reversed, shapes), fillvalue=1):
        dynamic = [size for size in sizes if type(size) is not int]
        is_known = bool(dynamic) and any(size != 1 for size in sizes if type(size) is int)
        if (is_known or len({*dynamic}) > 1) and any(map(symbols.is_of_values, dynamic)):
            return DynamicSizes.OF_VALUES
        if is_known:
            found = DynamicSizes.OF_INPUTS
    return found


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
        both = broadcast_size(size, each)
        size = torch.sym_max(size, each) if both is None else both
    return size
