"""Result sizes of operators whose sizes torch gets wrong where they are symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from exporter.capture.graph import Size

__all__ = ["SIZES"]


def _padded(self: torch.Tensor, pad: Sequence[Size], value: float = 0) -> torch.Tensor:
    # torch 2.13's meta kernel takes its sizes from the example, and fails on negative numbers.
    sizes: list[Size] = list(self.shape)
    for number, amount in enumerate(pad):
        sizes[-1 - number // 2] += amount
    return torch.empty(sizes, dtype=self.dtype, device=self.device)


#: Operator to a function of the same arguments that returns an empty tensor of the right size.
SIZES: dict[OpOverload, Callable[..., Any]] = {torch.ops.aten.constant_pad_nd.default: _padded}
