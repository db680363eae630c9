"""Operators for which torch's own implementation on a GPU, or on the CPU, cannot be recorded.

On a GPU it is a fused kernel without a lowering. That of the recurrent cells on the CPU writes to parts of a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.capture.replace.registry import instead_of

_aten = torch.ops.aten

_WHY = "on a GPU torch computes it with one fused kernel, which has no lowering and no equivalent in ONNX"
_WHY_CELL = f"{_WHY}; on the CPU it writes to parts of a tensor, which cannot be differentiated as views"


@instead_of(_aten.lstm_cell.default, why=_WHY_CELL)
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


@instead_of(_aten.gru_cell.default, why=_WHY_CELL)
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


@instead_of(_aten.grid_sampler.default, why=_WHY)
def _grid_sampler(
    input: torch.Tensor, grid: torch.Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    if input.device.type == "cpu":
        return NotImplemented
    sample = _aten.grid_sampler_2d if input.dim() == 4 else _aten.grid_sampler_3d
    sampled: torch.Tensor = sample(input, grid, interpolation_mode, padding_mode, align_corners)
    return sampled
