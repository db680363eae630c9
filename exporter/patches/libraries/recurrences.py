"""Recurrences over tokens that transformers writes as loops of Python, as scans, for any number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from onnx_parity.exporter.torch_inside.higher_order_ops import scan

__all__ = ["gated_sums", "weighted_averages"]


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


def weighted_averages(
    torchs: Callable[..., Any],
    time_decay: Tensor,
    time_first: Tensor,
    key: Tensor,
    value: Tensor,
    state: Sequence[Tensor] | None = None,
    return_state: bool = False,
) -> tuple[Tensor, Any]:
    """The recurrence of RWKV: averages of the values so far, with exponentials of keys that decay as weights. The sums
    of the values and of the weights are divided by the exponential of the largest exponent so far, so that none
    overflows."""
    is_returned = return_state or state is not None
    decay = -time_decay.exp()
    keys, values = key.float().movedim(1, 0), value.movedim(1, 0)
    if state is None:
        zero = torch.zeros_like(keys[0])
        state = (zero, zero.clone(), zero - 1e38)

    def step(sums: tuple[Tensor, ...], now: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor, ...], Tensor]:
        key, value = now
        numerator, denominator = _added(sums, key + time_first, value)[:2]
        return _added((sums[0], sums[1], sums[2] + decay), key, value), numerator / denominator

    last, averages = scan(step, tuple(state), (keys, values))
    return averages.movedim(0, 1).to(key.dtype), list(last) if is_returned else None


def _added(sums: tuple[Tensor, ...], exponent: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The sums with one more value, whose weight is the exponential of `exponent`, and the largest exponent."""
    numerator, denominator, largest = sums
    highest = torch.maximum(largest, exponent)
    before, now = (largest - highest).exp(), (exponent - highest).exp()
    return before * numerator + now * value, before * denominator + now, highest
