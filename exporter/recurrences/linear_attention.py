"""The operator over all tokens of linear attention, of the delta rule, and of both with a decay."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onnx_parity.exporter.own_operators import define, run_by

__all__ = ["LINEAR_ATTENTION", "linear_attention"]


def _shapes(query: Tensor, key: Tensor, value: Tensor, past_state: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return query.new_empty(*query.shape[:3], value.shape[3]), torch.empty_like(past_state)


def _run(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past_state: Tensor,
    decay: Tensor | None,
    beta: Tensor | None,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """The recurrence as it is defined, token by token."""
    state, results = past_state.clone(), []
    for token in range(query.shape[2]):
        q, k, new = query[:, :, token], key[:, :, token, :, None], value[:, :, token, None]
        if decay is not None:
            kept = decay[:, :, token].exp()
            state = state * (kept[..., None] if kept.ndim == 3 else kept[..., None, None])
        if beta is not None:
            new = (new - (k * state).sum(-2, keepdim=True)) * beta[:, :, token, None, None]
        state = state + k * new
        results.append((q[..., None] * state).sum(-2) * scale)
    stacked = torch.stack(results, 2) if results else query.new_empty(*query.shape[:3], value.shape[3])
    return stacked, state


#: Query and key are (batch, heads, tokens, size of keys), the value is (batch, heads, tokens, size of values), the
#: state is (batch, heads, size of keys, size of values). The decay, of which there is one for each head or one for each
#: element of a key, is a logarithm. With beta, the rate, the state is corrected as by the delta rule.
LINEAR_ATTENTION = define(
    "linear_attention(Tensor query, Tensor key, Tensor value, Tensor past_state, Tensor? decay, Tensor? beta, "
    "float scale) -> (Tensor, Tensor)",
    _shapes,
)
run_by(LINEAR_ATTENTION, _run)


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past_state: Tensor,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """The results for all tokens, and the state after them."""
    results: tuple[Tensor, Tensor] = LINEAR_ATTENTION(query, key, value, past_state, decay, beta, scale)
    return results
