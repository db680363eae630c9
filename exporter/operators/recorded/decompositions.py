"""Operators whose decomposition in torch does not compute what their kernel computes, which a test looks for; and one
whose decomposition adds up what only has to be moved.
"""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.registry.recorded import decomposition_of


@decomposition_of(
    "aten::_weight_norm_interface",
    why="for a weight of one axis torch's own takes the norm over that axis, and the kernel over none",
)
def _weight_norm_interface(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    others = [axis for axis in range(v.ndim) if axis != dim]
    dtype = torch.float32 if g.dtype is torch.bfloat16 else None
    norm = v.norm(2, others, keepdim=True, dtype=dtype) if others else v.abs().to(dtype or v.dtype)
    return v * (g / norm.to(g.dtype)), norm


@decomposition_of("aten::col2im", why="torch's own scatters elements, also those of blocks that do not overlap")
def _col2im(
    self: torch.Tensor,
    output_size: list[Size],
    kernel_size: list[int],
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> Any:
    if kernel_size != stride or any(padding) or any(each != 1 for each in dilation):
        return NotImplemented
    # Whether blocks cover an image of dynamic size depends on the size.
    if any(not isinstance(size, int) or size % step for size, step in zip(output_size, stride, strict=True)):
        return NotImplemented
    rows, columns = (size // step for size, step in zip(output_size, stride, strict=True))
    *batch, channels, _ = self.shape
    channels = channels // (kernel_size[0] * kernel_size[1])
    blocks = self.reshape(*batch, channels, *kernel_size, rows, columns)
    first = len(batch)
    moved = blocks.permute(*range(first + 1), first + 3, first + 1, first + 4, first + 2)
    return moved.reshape(*batch, channels, *output_size)
