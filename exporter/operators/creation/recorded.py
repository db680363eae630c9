"""What is recorded for the creation of tensors."""

from __future__ import annotations

import torch

from onnx_parity.exporter.registry.recorded import instead_of


@instead_of("aten::_dim_arange", why="torch's decomposition reads the size as a plain int")
def dim_arange(like: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.arange(like.shape[dim], device=like.device)
