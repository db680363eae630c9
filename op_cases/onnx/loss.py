"""Losses of classes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.harness.onnx_node import call, drawn, node


def log_likelihood(
    scores: torch.Tensor, target: torch.Tensor, weight: Any = None, *, reduction: str, ignore_index: int = -100
) -> torch.Tensor:
    return F.nll_loss(scores, target, weight, ignore_index=ignore_index, reduction=reduction)


def cross_entropy(
    scores: torch.Tensor, target: torch.Tensor, weight: Any = None, *, reduction: str, ignore_index: int = -100
) -> tuple[torch.Tensor, torch.Tensor]:
    logarithms = F.log_softmax(scores, 1)
    return F.nll_loss(logarithms, target, weight, ignore_index=ignore_index, reduction=reduction), logarithms


_WEIGHTS = drawn((3,), 0.5, 2.0)
_LOSSES = (
    call((4, 3), [0, 2, 1, 2]),
    call((4, 3), [0, 2, 1, 2], _WEIGHTS),
    call((4, 3), [0, 2, 1, 2], reduction="sum"),
    call((4, 3), [0, 2, 1, 2], reduction="none"),
    call((0, 3), (0,), reduction="none"),
    call((4, 3), [0, 2, 1, 2], _WEIGHTS, ignore_index=2),
    call((2, 3, 2), [[0, 2], [1, 1]], _WEIGHTS, reduction="none", ignore_index=1),
    call((1, 3, 2, 2), [[[0, 2], [1, 1]]]),
    call((4, 3), [0, -1, 1, 2], ignore_index=-1),
    call((1, 1), [0]),
)
negative_log_likelihood_loss = node("NegativeLogLikelihoodLoss", log_likelihood, *_LOSSES)
softmax_cross_entropy_loss = node(
    "SoftmaxCrossEntropyLoss",
    cross_entropy,
    *_LOSSES,
    call((4, 3), [0, 2, 1, 2], _WEIGHTS, outputs=[0, 1]),
    call((4, 3), [0, 2, 1, 2], outputs=[0]),
    call((2, 3, 2), [[0, 2], [1, 1]], outputs=[0], reduction="sum"),
)
