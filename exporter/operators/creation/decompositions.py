"""Tensors that are given other sizes, with `resize_`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.registry.recorded import decomposition_of

__all__ = ["resized"]


@decomposition_of("aten::resize")
def resized(self: torch.Tensor, size: Sequence[Any], *, memory_format: torch.memory_format | None = None) -> Any:
    """The elements of the tensor, and zeros after them, where torch leaves any numbers."""
    count = math.prod(size)
    missing: Any = torch.sym_max(count - self.numel(), 0)
    return torch.cat([self.flatten(), self.new_zeros(missing)])[:count].reshape(size)


@decomposition_of("aten::resize_as")
def resized_as(
    self: torch.Tensor, the_template: torch.Tensor, *, memory_format: torch.memory_format | None = None
) -> Any:
    return resized(self, the_template.shape)
