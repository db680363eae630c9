"""Operators whose decomposition in torch does not compute what their kernel computes. A test looks for such."""

from __future__ import annotations

import torch

from onnx_parity.exporter.capture.replace.registry import decomposition_of

_aten = torch.ops.aten


@decomposition_of(
    _aten._weight_norm_interface.default,
    why="for a weight of one axis torch's own takes the norm over that axis, and the kernel over none",
)
def _weight_norm_interface(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    others = [axis for axis in range(v.ndim) if axis != dim]
    dtype = torch.float32 if g.dtype is torch.bfloat16 else None
    norm = v.norm(2, others, keepdim=True, dtype=dtype) if others else v.abs().to(dtype or v.dtype)
    return v * (g / norm.to(g.dtype)), norm
