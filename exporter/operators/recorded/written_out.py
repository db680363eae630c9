"""Operators for which torch's own implementation on a GPU, or on the CPU, cannot be recorded.

On a GPU it is a fused kernel without a lowering. That of the recurrent cells on the CPU writes to parts of a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.registry.recorded import decomposition_of, instead_of

_aten = torch.ops.aten

_WHY = "on a GPU torch computes it with one fused kernel, which has no lowering and no equivalent in ONNX"
_WHY_TRACED = "it is the fused kernel of a GPU, which torch.jit.trace records in place of the cell"
_WHY_CELL = f"{_WHY}; on the CPU it writes to parts of a tensor, which cannot be differentiated as views"


@instead_of("aten::lstm_cell", why=_WHY_CELL)
def _lstm_cell(
    input: torch.Tensor,
    hx: Sequence[torch.Tensor],
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor | None = None,
    b_hh: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    hidden, cell = hx
    return _lstm_step(_aten.linear(hidden, w_hh, b_hh) + _aten.linear(input, w_ih, b_ih), cell)


def _lstm_step(gates: torch.Tensor, cell: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    entering, forgetting, candidate, leaving = gates.chunk(4, 1)
    cell = forgetting.sigmoid() * cell + entering.sigmoid() * candidate.tanh()
    return leaving.sigmoid() * cell.tanh(), cell


@decomposition_of("aten::_thnn_fused_lstm_cell", why=_WHY_TRACED)
def _fused_lstm_cell(
    input_gates: torch.Tensor, hidden_gates: torch.Tensor, cx: torch.Tensor, input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    gates = _biased(hidden_gates, hidden_bias) + _biased(input_gates, input_bias)
    return *_lstm_step(gates, cx), _workspace(gates)


def _biased(gates: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return gates if bias is None else gates + bias


def _workspace(gates: torch.Tensor) -> torch.Tensor:
    """What the kernel keeps for its derivative, which is not recorded."""
    return gates.new_empty(0)


@instead_of("aten::gru_cell", why=_WHY_CELL)
def _gru_cell(
    input: torch.Tensor,
    hx: torch.Tensor,
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor | None = None,
    b_hh: torch.Tensor | None = None,
) -> torch.Tensor:
    return _gru_step(_aten.linear(input, w_ih, b_ih), _aten.linear(hx, w_hh, b_hh), hx)


def _gru_step(input_gates: torch.Tensor, hidden_gates: torch.Tensor, hx: torch.Tensor) -> torch.Tensor:
    reset, update, new = input_gates.chunk(3, 1)
    own_reset, own_update, own_new = hidden_gates.chunk(3, 1)
    candidate = (new + own_new * (own_reset + reset).sigmoid()).tanh()
    hidden: torch.Tensor = (hx - candidate) * (own_update + update).sigmoid() + candidate
    return hidden


@decomposition_of("aten::_thnn_fused_gru_cell", why=_WHY_TRACED)
def _fused_gru_cell(
    input_gates: torch.Tensor, hidden_gates: torch.Tensor, hx: torch.Tensor, input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    hidden = _gru_step(_biased(input_gates, input_bias), _biased(hidden_gates, hidden_bias), hx)
    return hidden, _workspace(input_gates)


@instead_of("aten::grid_sampler", why=_WHY)
def _grid_sampler(
    input: torch.Tensor, grid: torch.Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    if input.device.type == "cpu":
        return NotImplemented
    sample = _aten.grid_sampler_2d if input.dim() == 4 else _aten.grid_sampler_3d
    sampled: torch.Tensor = sample(input, grid, interpolation_mode, padding_mode, align_corners)
    return sampled
