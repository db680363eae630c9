"""The results of convolutions, and how often windows fit on axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.recording.fakes.metadata import are_contiguous, describe, is_surely_contiguous
from onnx_parity.exporter.registry.results import Contiguous, result_of

__all__ = ["count_windows", "windows_of"]


class _Window(NamedTuple):
    """What slides over an axis."""

    size: int
    stride: int
    padding: int
    dilation: int


@result_of(
    "aten::convolution",
    why="torch's fake kernel imports sympy, and takes 5 to 30 ms with dynamic sizes",
)
def convolution(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    transposed: bool,
    output_padding: Sequence[Any],
    groups: int | torch.SymInt,
) -> Any:
    kernel = describe(weight).shape
    windows = windows_of(len(kernel) - 2, kernel[2:], stride, padding, dilation)
    has_floats = input.dtype.is_floating_point and all(
        each.dtype == input.dtype for each in (weight, bias) if each is not None
    )
    if transposed or windows is None or not has_floats or input.ndim != len(kernel):
        return NotImplemented
    if not isinstance(groups, int) or groups < 1:
        return NotImplemented
    channels = kernel[0]
    divides = groups == 1 or (isinstance(channels, int) and channels % groups == 0)
    fits = divides and describe(input).shape[1] == kernel[1] * groups
    if not fits or not channels or (bias is not None and describe(bias).shape != (channels,)):
        return NotImplemented
    sizes = count_windows(input.shape[2:], windows, ceil=False)
    # One filter may be expanded to all channels, and some channels of a tensor may be taken: the order of the axes in
    # memory is that of a contiguous tensor all the same, and so is that of the result.
    are_in_order = all(
        are_contiguous(each) or is_surely_contiguous(each, range(1, each.ndim)) for each in (input, weight)
    )
    if sizes is None or not are_in_order or input.device != weight.device:
        return NotImplemented
    return Contiguous(input.dtype, (input.shape[0], weight.shape[0], *sizes))


def windows_of(rank: int, *options: Sequence[Any]) -> list[_Window] | None:
    """The windows over `rank` axes, given their sizes, strides, paddings and dilations; None if these do not fit."""
    full = [tuple(each) * rank if len(each) == 1 else tuple(each) for each in options]
    if rank < 1 or any(len(each) != rank or not all(isinstance(number, int) for number in each) for each in full):
        return None
    windows = [_Window(*each) for each in zip(*full, strict=True)]
    fit = all(min(each.size, each.stride, each.dilation) > 0 and each.padding >= 0 for each in windows)
    return windows if fit else None


def count_windows(sizes: Sequence[Size], windows: Sequence[_Window], *, ceil: bool) -> list[Size] | None:
    """How often windows fit on axes; None if one is too short. Nothing is asked of dynamic ones that are long enough in
    the example: where it is not, torch fails."""
    results: list[Size] = []
    for size, (width, stride, padding, dilation) in zip(sizes, windows, strict=True):
        reach = dilation * (width - 1) + 1
        left = size + 2 * padding - reach
        steps = (left + (stride - 1 if ceil else 0)) // stride
        if not isinstance(size, int):
            if not left.node.has_hint() or left.node.hint < 0:  # type: ignore[union-attr]
                return None
            if ceil and stride + padding > reach:
                # If a window may be dropped, the windows are those that begin before the end of the input.
                steps = (size + padding + stride - 1) // stride - 1
        else:
            if ceil and steps * stride >= size + padding:
                steps -= 1  # The last window would only see padding.
            if left < 0 or steps < 0 or not size:
                return None
        results.append(steps + 1)
    return results
