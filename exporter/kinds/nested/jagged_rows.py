"""Rows of different lengths: from one after another to a batch with padding, and back."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["packed", "padded", "row_and_place"]


def padded(values: torch.Tensor, starts: torch.Tensor, lengths: torch.Tensor, size: Any, padding: Any) -> torch.Tensor:
    """The rows that begin at `starts` on the first axis of the values, with padding up to a size, or cut to it."""
    place = torch.arange(size, device=values.device)
    # The padding is gathered too: it is behind the values, so that there may be none of these.
    gathered = starts.unsqueeze(1) + place
    index = torch.where(place < lengths.unsqueeze(1), gathered, values.shape[0])
    behind = torch.full([1, *values.shape[1:]], padding, dtype=values.dtype, device=values.device)
    return torch.cat([values, behind])[index]


def row_and_place(offsets: torch.Tensor, total: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The row that each of the values belongs to, and its place in the row."""
    position = torch.arange(total, device=offsets.device)
    row = (position.unsqueeze(1) >= offsets[1:]).sum(1)
    return row, position - offsets[row]


def packed(batch: torch.Tensor, offsets: torch.Tensor, total: Any) -> torch.Tensor:
    """The rows of a batch, the first two axes of which are rows and places, one after another."""
    row, place = row_and_place(offsets, total)
    return batch.flatten(0, 1)[row * batch.shape[1] + place]
