"""Operators that torch computes on a GPU by one fused kernel, which nobody lowers: recorded as they are on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

__all__ = ["UNFUSED"]

_aten = torch.ops.aten


def _lstm_cell(
    input: torch.Tensor,
    hx: Sequence[torch.Tensor],
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor | None = None,
    b_hh: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    hidden, cell = hx
    gates = _aten.linear(hidden, w_hh, b_hh) + _aten.linear(input, w_ih, b_ih)
    entering, forgetting, candidate, leaving = gates.chunk(4, 1)
    cell = forgetting.sigmoid() * cell + entering.sigmoid() * candidate.tanh()
    return leaving.sigmoid() * cell.tanh(), cell


def _gru_cell(
    input: torch.Tensor,
    hx: torch.Tensor,
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor | None = None,
    b_hh: torch.Tensor | None = None,
) -> torch.Tensor:
    reset, update, new = _aten.linear(input, w_ih, b_ih).chunk(3, 1)
    own_reset, own_update, own_new = _aten.linear(hx, w_hh, b_hh).chunk(3, 1)
    candidate = (new + own_new * (own_reset + reset).sigmoid()).tanh()
    hidden: torch.Tensor = (hx - candidate) * (own_update + update).sigmoid() + candidate
    return hidden


def _grid_sampler(
    input: torch.Tensor, grid: torch.Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> torch.Tensor:
    sample = _aten.grid_sampler_2d if input.dim() == 4 else _aten.grid_sampler_3d
    sampled: torch.Tensor = sample(input, grid, interpolation_mode, padding_mode, align_corners)
    return sampled


#: What is done instead on any other device than the CPU.
UNFUSED: dict[str, Callable[..., object]] = {
    "aten::lstm_cell": _lstm_cell,
    "aten::gru_cell": _gru_cell,
    "aten::grid_sampler": _grid_sampler,
}
