"""Normalizations that torch has as kernels only, or whose decomposition does not compute what the kernel computes."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.registry.recorded import decomposition_of


@decomposition_of(
    "aten::_weight_norm_interface",
    why="for a weight of one axis torch's own takes the norm over that axis, and the kernel over none",
)
def weight_norm_interface(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    others = [axis for axis in range(v.ndim) if axis != dim]
    dtype = torch.float32 if g.dtype is torch.bfloat16 else None
    norm = v.norm(2, others, keepdim=True, dtype=dtype) if others else v.abs().to(dtype or v.dtype)
    return v * (g / norm.to(g.dtype)), norm


@decomposition_of("aten::_batch_norm_with_update_functional", why="it is the batch norm of training")
def batch_norm_with_update(
    input: torch.Tensor, weight: Any, bias: Any, running_mean: torch.Tensor, running_var: torch.Tensor,
    momentum: float, eps: float,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    arguments = (input, weight, bias, running_mean, running_var, True, momentum, eps)
    output, mean, rstd, new_mean, new_var = torch.ops.aten._native_batch_norm_legit_functional.default(*arguments)
    reserve = torch.empty(0, dtype=torch.uint8, device=input.device)
    return output, mean, rstd, reserve, new_mean, new_var
