"""Operators that torch computes on a GPU with a fused kernel, for which there is no lowering. They are recorded as on
the CPU, but without writes in place, so that their results can be differentiated as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from onnx_parity.exporter.capture.gradients import is_differentiated
from onnx_parity.exporter.capture.replace.registry import instead_of

_aten = torch.ops.aten

_WHY = "on a GPU torch computes it with one fused kernel, which has no lowering and no equivalent in ONNX"
_WHY_CELL = f"{_WHY}; on the CPU it writes to chunks of a tensor, which cannot be differentiated where they are views"


def _instead_on_a_gpu_of(
    op: OpOverload, why: str = _WHY, or_if: Callable[[], bool] = lambda: False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Like `instead_of`, for devices other than the CPU. On a CPU torch decomposes the operator, except if `or_if`."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def instead(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs) if args[0].device.type != "cpu" or or_if() else NotImplemented

        instead_of(op, why=why)(instead)
        return function

    return register


@_instead_on_a_gpu_of(_aten.lstm_cell.default, _WHY_CELL, is_differentiated)
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


@_instead_on_a_gpu_of(_aten.gru_cell.default, _WHY_CELL, is_differentiated)
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


@_instead_on_a_gpu_of(_aten.grid_sampler.default)
def _grid_sampler(
    input: torch.Tensor, grid: torch.Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> torch.Tensor:
    sample = _aten.grid_sampler_2d if input.dim() == 4 else _aten.grid_sampler_3d
    sampled: torch.Tensor = sample(input, grid, interpolation_mode, padding_mode, align_corners)
    return sampled
