"""Norms of groups of channels, of which there is a dynamic number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.sizes.symbolic_numbers import with_symbolic_numbers

__all__: list[str] = []


@with_symbolic_numbers(F.group_norm, torch.group_norm, "aten::group_norm")
def group_norm(
    torchs: Callable[..., Any], input: torch.Tensor, num_groups: Any, weight: Any = None, bias: Any = None,
    eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Any:  # fmt: skip
    """torch takes plain numbers of groups and of channels: a layer norm over the axes of each group."""
    channels = input.shape[1]
    if isinstance(num_groups, int) and isinstance(channels, int):
        return NotImplemented
    groups = input.unflatten(1, (num_groups, channels // num_groups))
    y = torch.layer_norm(groups, groups.shape[2:], eps=eps).reshape(input.shape)
    for combine, each in ((torch.mul, weight), (torch.add, bias)):
        if each is not None:
            y = combine(y, each.reshape(channels, *[1] * (input.ndim - 2)))
    return y.to(input.dtype)
