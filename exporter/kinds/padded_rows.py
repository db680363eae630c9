"""Rows of a batch that end with padding, which torch's encoders take out and put in again as zeros.

`nn.TransformerEncoder` does so in eval mode without gradients, by a nested tensor, if it is given a mask of the padding
and the padding is at the end of each row. A model computes all positions and makes those of the padding 0 at the end.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["PaddedRows", "zero_padding"]


class PaddedRows:
    """A nested tensor of a script: all positions, and which of them are no padding."""

    is_nested = True

    def __init__(self, tensor: torch.Tensor, valid: torch.Tensor) -> None:
        self.tensor = tensor
        self.valid = valid

    def __getattr__(self, name: str) -> Any:
        """The dtype, the device and the number of axes are those of the tensor."""
        return getattr(self.tensor, name)


def zero_padding(tensor: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
    """Zeros at padding, if that is only at the end of rows."""
    is_after_padding = valid[:, 1:] & valid[:, :-1].logical_not()
    return torch.where((valid | is_after_padding.any()).unsqueeze(-1), tensor, 0)
