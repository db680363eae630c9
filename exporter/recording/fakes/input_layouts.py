"""How inputs lie in memory: as the example does, at any size, or otherwise."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.recording.fakes.metadata import at_least_one

__all__ = ["InputLayout", "laid_out_like", "lies_like", "spelled_layout", "strides_like"]

_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


class InputLayout(enum.Enum):
    """A layout that a program may be given, and that is unlike the example's."""

    IN_ORDER = enum.auto()
    #: As the transpose of a contiguous tensor.
    IN_REVERSE = enum.auto()
    #: With a gap after each element, as a column of a matrix has.
    WITH_GAPS = enum.auto()
    CHANNELS_LAST = enum.auto()

    def strides(self, shape: Sequence[Size]) -> list[Size]:
        """The strides of a tensor of a shape."""
        outermost_first = range(len(shape))
        if self is InputLayout.IN_REVERSE:
            outermost_first = outermost_first[::-1]
        order = [0, *outermost_first[2:], 1] if self is InputLayout.CHANNELS_LAST else outermost_first
        strides: list[Size] = [0] * len(shape)
        step: Size = 2 if self is InputLayout.WITH_GAPS else 1
        for axis in reversed(order):
            strides[axis] = step
            step = step * at_least_one(shape[axis])
        return strides

    @staticmethod
    def unlike(example: torch.Tensor) -> Iterable[InputLayout]:
        """The layouts in which an example could lie, and does not."""
        if example.layout is not torch.strided or not example.ndim:
            return
        shape = [max(size, 2) for size in example.shape]
        own = strides_like(example, shape)
        tried: list[list[Size]] = []
        for each in InputLayout:
            if each is InputLayout.CHANNELS_LAST and example.ndim not in _CHANNELS_LAST:
                continue
            strides = each.strides(shape)
            if strides not in (own, *tried):
                tried.append(strides)
                yield each


def strides_like(example: torch.Tensor, shape: Sequence[Size]) -> list[Size]:
    """Strides for a shape: its axes lie in memory in the order of the example's, as far apart beyond their sizes."""
    if example.is_contiguous():
        return InputLayout.IN_ORDER.strides(shape)
    before = example.stride()
    strides: list[Size] = [0] * example.ndim
    in_example = 1
    here: Size = 1
    for axis in sorted(range(example.ndim), key=lambda axis: (before[axis], -axis)):
        if before[axis]:
            strides[axis] = here + max(before[axis] - in_example, 0)
            in_example = before[axis] * example.shape[axis]
            here = strides[axis] * at_least_one(shape[axis])
    return strides


def lies_like(example: torch.Tensor, tensor: torch.Tensor, *, exactly: bool = False) -> bool:
    """Whether a tensor lies in memory as the example does. Unless `exactly`, axes of one element may have any stride,
    and what is empty may lie anyhow."""
    if not exactly and not tensor.numel():
        return True
    wanted = zip(tensor.shape, tensor.stride(), strides_like(example, tensor.shape), strict=True)
    return all(own == other or (size == 1 and not exactly) for size, own, other in wanted)


def laid_out_like(example: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The values of a tensor, lying in memory as the example does, if that has a place for each element."""
    if tensor.layout is not torch.strided or example.layout is not torch.strided or 0 in example.stride():
        return tensor
    if lies_like(example, tensor, exactly=True):
        return tensor
    strides = [int(stride) for stride in strides_like(example, tensor.shape)]
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def spelled_layout(name: str, example: torch.Tensor, *, exactly: bool) -> str:
    """The condition that an input lies as the example does, in Python's syntax if it has a name."""
    if exactly:
        return f"{name} has strides like {example.stride()} of the example"
    if example.is_contiguous():
        return f"{name}.is_contiguous()"
    memory_format = _CHANNELS_LAST.get(example.ndim)
    if memory_format is not None and example.is_contiguous(memory_format=memory_format):
        return f"{name}.is_contiguous(memory_format={memory_format})"
    return f"{name} lies in memory as in the example, with strides like {example.stride()}"
