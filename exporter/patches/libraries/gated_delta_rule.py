"""The gated delta rule, for any number of tokens: chunks of tokens as products of matrices, and a scan over chunks.

For each token the state S decays and is corrected: S = exp(g) S + beta k (v - k exp(g) S), and the result is q S. What
the tokens of a chunk do to each other is a triangular system, which is solved for all chunks together, so that the scan
has three products for each chunk and none for each token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from onnx_parity.exporter.torch_inside.higher_order_ops import scan

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
    dtype, tokens = query.dtype, key.shape[1]
    groups = value.shape[2] // key.shape[2]
    if groups > 1:
        query, key = query.repeat_interleave(groups, dim=2), key.repeat_interleave(groups, dim=2)
    if use_qk_l2norm_in_kernel:
        query, key = _normalized(query), _normalized(key)
    missing = -tokens % chunk_size
    q, k, v, decay, rate = (_chunks(each, missing, chunk_size) for each in (query, key, value, g, beta))
    q = q * query.shape[-1] ** -0.5
    rate = rate[..., None]
    # The decay from the start of a chunk to each token, and between the tokens of each pair.
    total = decay.cumsum(-1)
    later = torch.ones(chunk_size, chunk_size, dtype=torch.bool, device=query.device).triu(1)
    between = (total[..., :, None] - total[..., None, :]).masked_fill(later, -torch.inf).exp()
    system = (k * rate) @ k.mT * between
    given = torch.cat([v * rate, k * rate * total.exp()[..., None]], -1)
    solved = torch.linalg.solve_triangular(system, given, upper=False, unitriangular=True)
    written, read = solved.split([v.shape[-1], k.shape[-1]], -1)
    own = q @ k.mT * between
    q = q * total.exp()[..., None]
    k = k * (total[..., -1:] - total).exp()[..., None]
    kept = total[..., -1].exp()[..., None, None]
    start = v.new_zeros(v.shape[0], v.shape[1], k.shape[-1], v.shape[-1])
    if initial_state is not None:
        start = start + initial_state

    def step(state: Tensor, chunk: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        q, k, written, read, own, kept = chunk
        new = written - read @ state
        return state * kept + k.mT @ new, q @ state + own @ new

    state, results = scan(step, start, tuple(each.movedim(2, 0) for each in (q, k, written, read, own, kept)))
    results = results.movedim(0, 2).flatten(2, 3)[:, :, :tokens]
    return results.transpose(1, 2).to(dtype), state if output_final_state else None


def _normalized(x: Tensor) -> Tensor:
    return x.float() * torch.rsqrt(x.float().square().sum(-1, keepdim=True) + 1e-6)


def _chunks(x: Tensor, missing: int, size: int) -> Tensor:
    """(batch, tokens, heads, ...) as (batch, heads, chunks, tokens of a chunk, ...) in float32."""
    x = x.transpose(1, 2).float()
    padded = torch.nn.functional.pad(x, (0, 0) * (x.ndim - 3) + (0, missing))
    chunks: Tensor = padded.unflatten(2, (-1, size))
    return chunks
