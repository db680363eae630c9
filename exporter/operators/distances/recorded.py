"""What is recorded for distances between vectors whose number is not known."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from onnx_parity.exporter.registry.recorded import any_size_depends_on_values, any_size_is_dynamic, instead_of

_ASKS_FOR_SIZES = "torch's own asks for a size that depends on values whether it is 0 or 1"


@instead_of(
    "aten::cdist",
    where=any_size_is_dynamic,
    why="torch's own asks for a size whether it is 0 or 1, and chooses by it, from 26 on, a less exact way to compute",
)
def cdist(x1: torch.Tensor, x2: torch.Tensor, p: float = 2, compute_mode: int | None = None) -> Any:
    distances = torch.linalg.vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)
    # The maximum over no features is -inf. torch's distance is 0.
    return distances.clamp_min(0) if math.isinf(p) else distances


@instead_of("aten::cosine_similarity", where=any_size_depends_on_values, why=_ASKS_FOR_SIZES)
def cosine_similarity(x1: torch.Tensor, x2: torch.Tensor, dim: int = 1, eps: float = 1e-8) -> Any:
    dtype = torch.result_type(x1, x2)
    # Broadcast first, so that the axis is counted in both.
    one, other = (x.to(dtype) + torch.zeros_like(like, dtype=dtype) for x, like in ((x1, x2), (x2, x1)))
    units = (x / torch.linalg.vector_norm(x, 2, dim, keepdim=True).clamp_min(eps) for x in (one, other))
    return functools.reduce(torch.mul, units).sum(dim)
