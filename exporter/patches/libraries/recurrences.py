"""The recurrence of RecurrentGemma, which has another form for a single token, in one form for any number of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from onnx_parity.exporter.torch_inside.higher_order_ops import scan

__all__ = ["gated_sums"]


def gated_sums(
    torchs: Callable[..., Any],
    self: Any,
    hidden_states: Tensor,
    recurrent_gate: Tensor,
    reset: Tensor,
    recurrent_states: Tensor | None,
    acc_dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    """The recurrence of RecurrentGemma: each state is the one before times the gate, which a reset closes, plus the
    input. Its own function has another form for a single token."""
    gate, x = (each.to(acc_dtype).movedim(1, 0) for each in (recurrent_gate * ~reset, hidden_states))
    start = torch.zeros_like(x[0]) if recurrent_states is None else recurrent_states.to(acc_dtype)

    def step(state: Tensor, now: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        gate, x = now
        new = gate * state + x
        return new, new.clone()

    last, states = scan(step, start, (gate, x))
    return states.movedim(0, 1).to(hidden_states.dtype), last
