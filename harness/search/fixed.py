"""Inputs with given values."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onnx_parity.harness.inputs import Maker

__all__ = ["Fixed", "fix_values"]


@dataclass(frozen=True, slots=True)
class Fixed(Maker):
    """A tensor with these values, which are valid arguments of the operator that they were sampled for."""

    tensor: torch.Tensor

    def draw(self, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        return self.tensor


def fix_values(tensor: torch.Tensor) -> Fixed:
    """What makes a copy of this tensor."""
    return Fixed(tuple(tensor.shape), dtype=tensor.dtype, tensor=tensor.detach().clone())
