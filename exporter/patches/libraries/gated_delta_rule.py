"""The gated delta rule of transformers as one operator over all tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from onnx_parity.exporter.recurrences.linear_attention import linear_attention

__all__ = ["gated_delta_rule"]


def gated_delta_rule(
    torchs: Callable[..., tuple[Tensor, Tensor | None]],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    chunk_size: int = 64,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """The results of a sequence, and the state after it. Query, key and value are (batch, tokens, heads, size), and the
    logarithm `g` of the decay and `beta` are (batch, tokens, heads). Several sequences in one
    are left to transformers, and options of other kernels are ignored as it does."""
    if any(options.get(packed) is not None for packed in ("cu_seqlens", "seq_idx")):
        return torchs(
            query,
            key,
            value,
            g,
            beta,
            chunk_size,
            initial_state,
            output_final_state,
            use_qk_l2norm_in_kernel,
            **options,
        )
    groups = value.shape[2] // key.shape[2]
    if groups > 1:
        query, key = query.repeat_interleave(groups, dim=2), key.repeat_interleave(groups, dim=2)
    if use_qk_l2norm_in_kernel:
        query, key = _normalized(query), _normalized(key)
    q, k, v, decay, rate = (each.transpose(1, 2).float() for each in (query, key, value, g, beta))
    start = v.new_zeros(v.shape[0], v.shape[1], k.shape[-1], v.shape[-1])
    if initial_state is not None:
        start = start + initial_state
    results, state = linear_attention(q, k, v, start, decay, rate, scale=query.shape[-1] ** -0.5)
    return results.transpose(1, 2).to(query.dtype), state if output_final_state else None


def _normalized(x: Tensor) -> Tensor:
    return x.float() * torch.rsqrt(x.float().square().sum(-1, keepdim=True) + 1e-6)
