"""What is recorded for the mean of losses that are computed from sequences and labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.registry.recorded import instead_of

__all__ = ["tensor_of_lengths"]


@instead_of(
    "aten::ctc_loss.IntList",
    "aten::ctc_loss.Tensor",
    why="torch makes a tensor of the lengths by writing to its memory, and leaves one in the CPU's memory where it is",
)
def mean_ctc_loss(
    log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: Sequence[int] | torch.Tensor,
    target_lengths: Sequence[int] | torch.Tensor, blank: int = 0, reduction: int = 1, zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """The mean, of each loss by its number of labels. The other reductions do not need the lengths."""
    if reduction != 1:
        return NotImplemented
    ctc_loss: Any = torch.ctc_loss  # It is declared for lists and for tensors apart.
    losses = ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, 0, zero_infinity)
    return (losses / tensor_of_lengths(target_lengths, losses.device).clamp_min(1)).mean()


def tensor_of_lengths(lengths: Any, device: torch.device) -> torch.Tensor:
    if isinstance(lengths, torch.Tensor):
        return lengths.to(device, torch.int64)
    assert isinstance(lengths, Sequence)
    return torch.stack([torch.full((), each, dtype=torch.int64, device=device) for each in lengths])
