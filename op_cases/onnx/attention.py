"""Attention, and the rotary embedding of positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_parity.harness.onnx_node import Array, call, definition, drawn, node, whole


def _by_heads(x: Array, heads: int | None) -> Array:
    """`(batch, length, heads * size)` as `(batch, heads, length, size)`."""
    if x.ndim == 4:
        return x
    assert heads
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


@definition
def attend(
    q: Array, k: Array, v: Array, attn_mask: Any = None, past_key: Any = None, past_value: Any = None,
    nonpad_kv_seqlen: Any = None, *, is_causal: int, qk_matmul_output_mode: int, softcap: float,
    scale: float | None = None, q_num_heads: int | None = None, kv_num_heads: int | None = None,
    left_window_size: int = -1, right_window_size: int = -1, softmax_precision: int | None = None,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """A query without any key has the result 0."""
    del softmax_precision
    queries, keys, values = _by_heads(q, q_num_heads), _by_heads(k, kv_num_heads), _by_heads(v, kv_num_heads)
    offset = np.zeros(len(queries), np.int64)
    if past_key is not None:
        offset += past_key.shape[2]
        keys, values = np.concatenate([past_key, keys], 2), np.concatenate([past_value, values], 2)
    present = keys, values
    shared = queries.shape[1] // keys.shape[1]
    keys, values = np.repeat(keys, shared, 1), np.repeat(values, shared, 1)
    factor = 1 / np.sqrt(queries.shape[-1]) if scale is None else scale
    products = queries @ keys.swapaxes(2, 3) * factor
    capped = softcap * np.tanh(products / softcap) if softcap else products
    bias = np.zeros(capped.shape)
    if attn_mask is not None:
        mask = attn_mask if attn_mask.dtype == bool else attn_mask.astype(np.float64)
        lacking = capped.shape[-1] - mask.shape[-1]
        mask = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask
        bias = bias + np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, lacking)], constant_values=-np.inf)
    places = np.arange(capped.shape[-1])
    if nonpad_kv_seqlen is not None:
        offset = nonpad_kv_seqlen - queries.shape[2]
        bias = np.where(places < nonpad_kv_seqlen[:, None, None, None], bias, -np.inf)
    at = (offset[:, None] + np.arange(queries.shape[2]))[:, None, :, None]
    seen = np.ones(capped.shape, bool)
    seen &= (places <= at) | (not is_causal)
    seen &= (places >= at - left_window_size) | (left_window_size < 0)
    seen &= (places <= at + right_window_size) | (right_window_size < 0)
    scores = np.where(seen, capped + bias, -np.inf)
    highest = np.max(scores, -1, keepdims=True, initial=-np.inf)
    exponentials = np.exp(scores - np.where(np.isfinite(highest), highest, 0.0))
    total = exponentials.sum(-1, keepdims=True)
    shares = exponentials / np.where(total == 0, 1.0, total)
    made = shares @ values
    if q.ndim == 3:
        made = made.transpose(0, 2, 1, 3).reshape(*q.shape[:2], -1)
    return made, *present, (products, capped, scores, shares)[qk_matmul_output_mode]


_Q, _K, _V = (1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 3)
attention = node(
    "Attention",
    attend,
    call(_Q, _K, _V, outputs=[0]),
    call((0, 2, 3, 4), (0, 2, 5, 4), (0, 2, 5, 3), outputs=[0]),
    call(_Q, _K, _V, (3, 5), outputs=[0]),
    call(_Q, _K, _V, [[True, False, True, True, False], [True] * 5, [False, True, True, False, False]], outputs=[0]),
    call((2, 3, 8), (2, 3, 4), (2, 3, 6), q_num_heads=4, kv_num_heads=2, outputs=[0]),
    call(_Q, _Q, _Q, is_causal=1, outputs=[0]),
    call(_Q, _K, _V, scale=0.25, outputs=[0]),
    call(_Q, _K, _V, softcap=2.0, outputs=[0]),
    call((1, 2, 1, 4), (1, 2, 1, 4), (1, 2, 1, 3), None, (1, 2, 3, 4), (1, 2, 3, 3), outputs=[0, 1, 2]),
    call((1, 2, 2, 4), (1, 2, 2, 4), (1, 2, 2, 3), (2, 5), (1, 2, 3, 4), (1, 2, 3, 3), outputs=[0, 1, 2, 3]),
    *(call(_Q, _K, _V, (3, 5), softcap=2.0, qk_matmul_output_mode=mode, outputs=[0, 3]) for mode in (0, 1, 3)),
    call((2, 1, 2, 4), (2, 1, 4, 4), (2, 1, 4, 3), nonpad_kv_seqlen=[2, 4], outputs=[0], since=24),
    call(_Q, _K, _V, softmax_precision=11, outputs=[0]),
    call((1, 2, 4, 4), (1, 2, 6, 4), (1, 2, 6, 3), left_window_size=2, right_window_size=1, outputs=[0]),
    call((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1), outputs=[0]),
    low=-1.0,
    high=1.0,
    # A mask of numbers has the type of the queries.
    where=lambda types: types["U"] in (types["T1"], "tensor(bool)") or types["T1"] == "tensor(float)",
)


@definition
def rotate(
    x: Array, cos: Array, sin: Array, positions: Array | None = None, *, interleaved: int, num_heads: int = 0,
    rotary_embedding_dim: int,
) -> Array:  # fmt: skip
    heads = x if x.ndim == 4 else _by_heads(x, num_heads)
    size = rotary_embedding_dim or heads.shape[-1]
    turned, rest = heads[..., :size], heads[..., size:]
    chosen = [(each if positions is None else each[positions])[:, None] for each in (cos, sin)]
    one, other = (turned[..., ::2], turned[..., 1::2]) if interleaved else np.split(turned, 2, -1)
    real, imaginary = one * chosen[0] - other * chosen[1], one * chosen[1] + other * chosen[0]
    joined = (np.stack([real, imaginary], -1).reshape(turned.shape) if interleaved
              else np.concatenate([real, imaginary], -1))  # fmt: skip
    made = np.concatenate([joined, rest], -1)
    return made if x.ndim == 4 else made.transpose(0, 2, 1, 3).reshape(x.shape)


_POSITIONS = whole((2, 3), 0, 8)
rotary_embedding = node(
    "RotaryEmbedding",
    rotate,
    call((2, 2, 3, 4), (8, 2), (8, 2), _POSITIONS),
    call((0, 2, 3, 4), (8, 2), (8, 2), whole((0, 3), 0, 8)),
    call((1, 1, 1, 4), (8, 2), (8, 2), [[5]]),
    call((2, 2, 3, 4), (8, 2), (8, 2), _POSITIONS, interleaved=1),
    call((2, 2, 3, 6), (8, 2), (8, 2), _POSITIONS, rotary_embedding_dim=4),
    call((2, 3, 8), (8, 2), (8, 2), _POSITIONS, num_heads=2),
    call((2, 2, 3, 4), (2, 3, 2), (2, 3, 2)),
    low=-1.0,
    high=1.0,
)


@definition
def attend_linearly(
    q: Array, k: Array, v: Array, past: Any = None, decay: Any = None, beta: Any = None, *, chunk_size: int,
    kv_num_heads: int, q_num_heads: int, scale: float, update_rule: str,
) -> tuple[Array, Array]:  # fmt: skip
    """A state for each head of keys, to which each key adds the outer product with its value, and which decays."""
    del chunk_size
    queries, keys, values = _by_heads(q, q_num_heads), _by_heads(k, kv_num_heads), _by_heads(v, kv_num_heads)
    batch, length = q.shape[:2]
    state = np.zeros((batch, kv_num_heads, keys.shape[-1], values.shape[-1])) if past is None else past
    factor = scale or 1 / np.sqrt(queries.shape[-1])
    results = []
    for step in range(length):
        key, value = keys[:, :, step, :, None], values[:, :, step, None, :]
        if decay is not None:
            state = state * np.exp(decay[:, step].reshape(batch, kv_num_heads, -1, 1))
        if beta is not None:
            rate = beta[:, step].reshape(batch, -1, 1, 1)
            value = rate * (value - (state * key).sum(2, keepdims=True))
        state = state + key * value
        read = np.repeat(state, q_num_heads // kv_num_heads, 1)
        results.append(factor * (queries[:, :, step, :, None] * read).sum(2))
    made = np.stack(results, 1)
    return made.reshape(batch, length, made.shape[2] * made.shape[3]), state


_HEADS: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2}
_QUERY, _DECAY, _RATE = (1, 3, 4), drawn((1, 3, 2), -1.0, 0.0), drawn((1, 3, 2), 0.0, 1.0)
linear_attention = node(
    "LinearAttention",
    attend_linearly,
    call(_QUERY, _QUERY, _QUERY, (1, 2, 2, 2), _DECAY, _RATE, **_HEADS),
    call(_QUERY, _QUERY, _QUERY, update_rule="linear", **_HEADS),
    call(*((0, 3, 4),) * 3, update_rule="linear", **_HEADS),
    call(_QUERY, _QUERY, _QUERY, None, drawn((1, 3, 4), -1.0, 0.0), update_rule="gated", scale=0.5, **_HEADS),
    call(_QUERY, _QUERY, _QUERY, None, None, drawn((1, 3, 1), 0.0, 1.0), update_rule="delta", chunk_size=2, **_HEADS),
    call((1, 2, 4), (1, 2, 2), (1, 2, 3), update_rule="linear", q_num_heads=2, kv_num_heads=1),
    low=-1.0,
    high=1.0,
)
