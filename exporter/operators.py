"""Operators that make a program's sizes tensors: `onnx_parity.operators`, as `torch.onnx.operators` was."""

from __future__ import annotations

import torch

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: torch.Tensor) -> torch.Tensor:
    """The shape as an int64 tensor, which a recording follows: sizes that vary stay so."""
    return torch._shape_as_tensor(x)


def reshape_from_tensor_shape(x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    """Reshape to the sizes that a tensor holds."""
    return torch._reshape_from_tensor(x, shape)
