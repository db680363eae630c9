"""Padding with a number that is a size or in a tensor: `F.pad(x, (0, 1), value=x.shape[0])`, `value=x.min()`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.graph.graph import Size, Varying
from onnx_parity.exporter.sizes.symbolic_numbers import with_symbolic_numbers

__all__: list[str] = []


@with_symbolic_numbers(F.pad)
def pad(
    torchs: Callable[..., Any], input: torch.Tensor, pad: Sequence[Size], mode: str = "constant", value: Any = None
) -> Any:
    """torch takes a plain number: what lies outside of the tensor is filled with it afterwards."""
    is_tensor = isinstance(value, torch.Tensor) and value.ndim == 0
    if mode != "constant" or not (is_tensor or isinstance(value, Varying)):
        return NotImplemented
    outside = torchs(torch.zeros_like(input, dtype=torch.int32), pad, value=1) > 0
    number = value if is_tensor else torch.scalar_tensor(value, dtype=torch.float64)
    return torch.where(outside, number.to(input), torchs(input, pad))
