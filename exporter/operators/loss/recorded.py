"""What is recorded for losses of sequences and labels: their mean, and the connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.own_operators import define, run_by
from onnx_parity.exporter.registry.recorded import decomposition_of, instead_of

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


# --- if it has no lowering --------------------------------------------------------------------------------------------


def _steps_of_ctc(
    first: torch.Tensor, emitted: torch.Tensor, skips: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """The paths that end at each place, or one or two places before it, go on by what is emitted at the next step."""
    alpha, alphas = first, []
    impossible = first.new_full([first.shape[0], 2], -torch.inf)
    for step in range(1, emitted.shape[1]):
        shifted = torch.cat([impossible, alpha], 1)
        reached = torch.stack([alpha, shifted[:, 1:-1], torch.where(skips, shifted[:, :-2], -torch.inf)])
        alpha = torch.where((lengths > step).unsqueeze(-1), _log_sum(reached) + emitted[:, step], alpha)
        alphas.append(alpha)
    return torch.stack(alphas) if alphas else first.new_empty((0, *first.shape))


_STEPS = define(
    "ctc_steps(Tensor first, Tensor emitted, Tensor skips, Tensor lengths) -> Tensor",
    lambda first, emitted, skips, lengths: first.new_empty((emitted.shape[1] - 1, *first.shape)),
)
run_by(_STEPS, _steps_of_ctc)


@decomposition_of("aten::_ctc_loss", "aten::_ctc_loss.Tensor")
def ctc_loss(
    log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Graves et al. 2006: `alpha[s]` is the log of the probability of the first s labels and blanks at each step"""
    steps: Size = log_probs.shape[0]
    batch = log_probs.shape[1]
    # On a GPU the lengths are those of a list, or of a tensor in the CPU's memory, where the labels may lie as well.
    inputs, labels = (tensor_of_lengths(each, log_probs.device) for each in (input_lengths, target_lengths))
    padded = _padded(targets.to(log_probs.device, torch.int64), labels, batch)
    count = padded.shape[1]
    blanks = torch.full_like(padded, blank)
    # Labels with a blank before each and after the last.
    path = torch.cat([torch.stack([blanks, padded], -1).reshape(batch, -1), torch.full_like(blanks[:, :1], blank)], 1)
    if count == 0:
        path = torch.full([batch, 1], blank, dtype=torch.int64, device=log_probs.device)
    places = torch.arange(2 * count + 1, device=log_probs.device)
    before = torch.cat([torch.full_like(path[:, :2], blank), path], 1)[:, : 2 * count + 1]
    skips = (places % 2 == 1) & (path != before) & (places >= 2)
    # No path is longer than its labels; what lies behind is never read.
    emitted = log_probs.transpose(0, 1).gather(2, path.unsqueeze(1).expand(batch, steps, 2 * count + 1))
    starts = (places < 2) & (places <= 2 * labels.unsqueeze(-1))
    first = torch.where(starts, emitted[:, 0], -torch.inf)
    further = _steps_of_ctc if isinstance(steps, int) else _STEPS
    alphas = torch.cat([first.unsqueeze(0), further(first, emitted, skips, inputs)])
    ends = torch.stack([2 * labels, (2 * labels - 1).clamp_min(0)], -1)
    last = alphas[-1].gather(1, ends)
    last = torch.stack([last[:, 0], torch.where(labels > 0, last[:, 1], -torch.inf)])
    # A sequence of no steps has one path, which has no labels.
    of_nothing = torch.where(labels > 0, torch.inf, -0.0).to(last.dtype)
    return torch.where(inputs > 0, -_log_sum(last), of_nothing), alphas.transpose(0, 1)


def _padded(targets: torch.Tensor, lengths: torch.Tensor, batch: int) -> torch.Tensor:
    """The labels of each sequence as a row. Without rows they follow each other, and no row is longer than all."""
    if targets.dim() == 2:
        return targets
    starts = lengths.cumsum(0) - lengths
    places = starts.unsqueeze(-1) + torch.arange(targets.shape[0], device=targets.device)
    return targets[places.clamp_max(targets.shape[0] - 1)]


def _log_sum(terms: torch.Tensor) -> torch.Tensor:
    """The logarithm of the sum of exponentials along the first axis; -inf where all are"""
    greatest = terms.amax(0)
    finite = torch.where(greatest == -torch.inf, 0, greatest)
    return (terms - finite).exp().sum(0).log() + finite
