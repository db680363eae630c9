"""Result sizes of operators whose sizes torch gets wrong where they are symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from exporter.capture.graph import Size
from exporter.capture.upsampling import UPSAMPLING_TO_SIZES

__all__ = ["SIZES"]


def _padded(self: torch.Tensor, pad: Sequence[Size], value: float = 0) -> torch.Tensor:
    # torch 2.13's meta kernel takes its sizes from the example, and fails on negative numbers.
    sizes: list[Size] = list(self.shape)
    for number, amount in enumerate(pad):
        sizes[-1 - number // 2] += amount
    return torch.empty(sizes, dtype=self.dtype, device=self.device)


def _runs(self: torch.Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    # torch 2.13's fake kernel counts the axis from the front only.
    axis = None if dim is None else dim % max(self.ndim, 1)
    return torch.ops.aten.unique_consecutive.default(self, return_inverse, return_counts, axis)


def _blocks(
    self: torch.Tensor, kernel_size: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> torch.Tensor:
    # torch 2.13's meta kernel takes its sizes from the example.
    *batch, channels, height, width = self.shape
    count: Size = 1
    for size, kernel, gap, pad, step in zip((height, width), kernel_size, dilation, padding, stride, strict=True):
        count = count * ((size + 2 * pad - gap * (kernel - 1) - 1) // step + 1)
    sizes = [*batch, channels * kernel_size[0] * kernel_size[1], count]
    return torch.empty(sizes, dtype=self.dtype, device=self.device)


def _upsampled(self: torch.Tensor, output_size: Sequence[Size], *options: object) -> torch.Tensor:
    # torch's meta kernels go through indexing, which does not take sizes that are symbols.
    return torch.empty([*self.shape[:2], *output_size], dtype=self.dtype, device=self.device)


#: Operator to a function of the same arguments that returns an empty tensor of the right size.
SIZES: dict[OpOverload, Callable[..., Any]] = {
    torch.ops.aten.constant_pad_nd.default: _padded,
    torch.ops.aten.im2col.default: _blocks,
    torch.ops.aten.unique_consecutive.default: _runs,
    **dict.fromkeys(UPSAMPLING_TO_SIZES, _upsampled),
}
