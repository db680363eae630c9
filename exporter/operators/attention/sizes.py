"""Attention with a scale that depends on dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F

from onnx_parity.exporter.sizes.symbolic_numbers import with_symbolic_numbers

__all__: list[str] = []


@with_symbolic_numbers(F.scaled_dot_product_attention)
def attend_with_scale(
    torchs: Callable[..., Any], query: torch.Tensor, *rest: Any, scale: Any = None, **options: Any
) -> Any:
    """torch takes a plain scale: the queries are multiplied by a symbolic one."""
    if not isinstance(scale, torch.SymInt | torch.SymFloat):
        return NotImplemented
    return torchs(torch.mul(query, cast("float", scale)), *rest, scale=1.0, **options)
