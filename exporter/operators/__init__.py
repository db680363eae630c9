"""All that is known of ATen operators, a folder for each family: how they are lowered and what is recorded for them.

Its own two functions are public, as `onnx_parity.operators`: sizes as tensors and tensors as sizes, like the former
`torch.onnx.operators`.
"""

from __future__ import annotations

import torch

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: torch.Tensor) -> torch.Tensor:
    """The shape as an int64 tensor. In the model it is computed from the input, so that dynamic sizes stay dynamic."""
    return torch._shape_as_tensor(x)


def reshape_from_tensor_shape(x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    """Reshape to the sizes in a tensor."""
    return torch._reshape_from_tensor(x, shape)
