"""ONNX's operators for transformers that a program can call: `onnx_parity.ops.attention` and `rotary_embedding`.

Both are computed in torch as ONNX specifies them, and can be exported at every opset: as ONNX's operator if the opset
and onnxruntime have it, and otherwise as the operators that it consists of.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.dispatch.gradients import is_transformed
from onnx_parity.exporter.dtypes import TO_TORCH
from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.own_operators import define, run_by
from onnx_parity.exporter.patches.exporting_flag import is_in_onnx_export

__all__ = ["attention", "rotary_embedding", "torchs_attention"]


# --- attention --------------------------------------------------------------------------------------------------------


def attention(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    past_key: torch.Tensor | None = None,
    past_value: torch.Tensor | None = None,
    *,
    is_causal: bool = False,
    kv_num_heads: int = 0,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """ONNX's Attention: its output, the keys and values with the past before them, and the scores.

    Tensors are (batch, heads, length, size), or (batch, length, heads * size) with both numbers of heads. A mask is
    boolean, True where a query attends to a key, or is added to the scores. `qk_matmul_output_mode` selects the scores
    that are returned: the products (0), those after `softcap` (1), those with the mask (2), or the softmax (3). A query
    that attends to no key gives zeros; with `is_causal`, every query attends to the past.
    """
    _check_attention(Q, K, V, past_key, past_value, kv_num_heads, q_num_heads, qk_matmul_output_mode)
    is_flat = Q.ndim == 3
    if is_flat:
        Q, K, V = _by_head(Q, q_num_heads), _by_head(K, kv_num_heads), _by_head(V, kv_num_heads)
    offset = past_key.shape[2] if past_key is not None else 0
    if past_key is not None and past_value is not None:
        K, V = torch.cat([past_key, K], 2), torch.cat([past_value, V], 2)
    keys, values = _for_each(K, Q.shape[1]), _for_each(V, Q.shape[1])
    if attn_mask is None and not offset and not softcap and softmax_precision is None and qk_matmul_output_mode == 0:
        # torch has a single operator for this, which also becomes a single operator of the model.
        scores = _scores(Q, keys, scale)
        grouped = K.shape[1] != Q.shape[1]
        output = F.scaled_dot_product_attention(Q, K, V, is_causal=is_causal, scale=scale, enable_gqa=grouped)
        return _flat(output) if is_flat else output, K, V, scores
    scores = _scores(Q, keys, scale)
    capped = torch.tanh(scores / softcap) * softcap if softcap > 0 else scores
    mask = _bias(attn_mask, is_causal, offset, capped)
    biased = capped if mask is None else capped + mask
    precision = biased.dtype if softmax_precision is None else _torch_dtype(softmax_precision)
    if mask is None:
        weights = torch.softmax(biased.to(precision), -1)
    else:
        attends = mask.amax(-1, keepdim=True) > -math.inf
        # Replaced before the softmax as well, so that the gradient of the rows replaced after it is not NaN.
        weights = torch.softmax(torch.where(attends, biased, 0.0).to(precision), -1)
        weights = torch.where(attends, weights, 0.0)
    weights = weights.to(Q.dtype)
    output = weights @ values
    return _flat(output) if is_flat else output, K, V, (scores, capped, biased, weights)[qk_matmul_output_mode]


def torchs_attention(*inputs: Any, **options: Any) -> Any:
    """`torch.onnx.ops.attention`. Refuses options for which torch does not compute what ONNX specifies."""
    if options.get("softcap") or options.get("qk_matmul_output_mode"):
        raise refused_here(
            "torch.onnx.ops.attention with softcap or qk_matmul_output_mode does not compute what ONNX's Attention "
            "does: call onnx_parity.ops.attention"
        )
    return attention(*inputs, **options)


def _check_attention(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    past_key: torch.Tensor | None,
    past_value: torch.Tensor | None,
    kv_num_heads: int,
    q_num_heads: int,
    mode: int,
) -> None:
    ranks = [tensor.ndim for tensor in (Q, K, V)]
    if ranks not in ([3, 3, 3], [4, 4, 4]):
        raise ArgumentError(
            f"attention takes Q, K and V of 3 axes, or of 4, but got {', '.join(map(str, ranks))}: reshape them"
        )
    if Q.ndim == 3 and not (q_num_heads > 0 and kv_num_heads > 0):
        raise ArgumentError(
            "attention needs the numbers of heads if Q, K and V have 3 axes: give q_num_heads and kv_num_heads"
        )
    heads = (q_num_heads, kv_num_heads) if Q.ndim == 3 else (Q.shape[1], K.shape[1])
    if heads[0] % heads[1]:
        raise ArgumentError(
            f"attention got {heads[0]} heads of Q and {heads[1]} of K: the first must be a multiple of the second"
        )
    if (past_key is None) is not (past_value is None):
        raise ArgumentError("attention got one of past_key and past_value: give both or neither")
    if mode not in range(4):
        raise ArgumentError(f"qk_matmul_output_mode is {mode!r}: give 0, 1, 2 or 3")


def _by_head(x: torch.Tensor, heads: int) -> torch.Tensor:
    by_head: torch.Tensor = x.unflatten(2, (heads, x.shape[2] // heads))
    return by_head.transpose(1, 2)


def _flat(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).flatten(2)


def _scores(queries: torch.Tensor, keys: torch.Tensor, scale: float | None) -> torch.Tensor:
    root = math.sqrt(scale) if scale is not None else queries.shape[-1] ** -0.25
    return (queries * root) @ (keys * root).transpose(-2, -1)


def _for_each(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Keys or values with each head repeated for all the heads of the query that share it."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def _bias(mask: torch.Tensor | None, is_causal: bool, offset: int, scores: torch.Tensor) -> torch.Tensor | None:
    """The tensor that is added to the scores for a mask and `is_causal`; None if nothing is."""
    if mask is not None:
        missing: Any = scores.shape[-1] - mask.shape[-1]
        if mask.dtype is torch.bool:
            mask = torch.where(mask, 0.0, -math.inf).to(scores.dtype)
        if not isinstance(missing, int) or missing > 0:
            mask = F.pad(mask, (0, missing), value=-math.inf)
    if not is_causal:
        return mask
    rows = torch.arange(scores.shape[-2], device=scores.device) + offset
    later = torch.arange(scores.shape[-1], device=scores.device) > rows.unsqueeze(1)
    causal = torch.where(later, -math.inf, 0.0).to(scores.dtype)
    return causal if mask is None else mask + causal


def _torch_dtype(onnx_value: int) -> torch.dtype:
    dtype = next((dtype for kind, dtype in TO_TORCH.items() if kind.value == onnx_value), None)
    if dtype is None or not dtype.is_floating_point:
        raise ArgumentError(
            f"softmax_precision is {onnx_value!r}: give the number of a floating type of ONNX, 1 for float, 10 for "
            "float16, 11 for double, 16 for bfloat16"
        )
    return dtype


# --- rotary embedding -------------------------------------------------------------------------------------------------


def rotary_embedding(
    X: torch.Tensor,
    cos_cache: torch.Tensor,
    sin_cache: torch.Tensor,
    position_ids: torch.Tensor | None = None,
    *,
    interleaved: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> torch.Tensor:
    """ONNX's RotaryEmbedding: pairs of features are rotated by angles that depend on the position.

    X is (batch, heads, length, size), or (batch, length, heads * size) with `num_heads`. The caches are (positions,
    size / 2) and are indexed with `position_ids` (batch, length); without these they are (batch, length, size / 2).
    """
    if X.ndim not in (3, 4):
        raise ArgumentError(f"rotary_embedding takes X of 3 or 4 axes, but got {X.ndim}: reshape it")
    if X.ndim == 3 and num_heads <= 0:
        raise ArgumentError("rotary_embedding needs the number of heads if X has 3 axes: give num_heads")
    rank = 2 if position_ids is not None else 3
    if cos_cache.ndim != rank or sin_cache.ndim != rank:
        given = "with" if position_ids is not None else "without"
        raise ArgumentError(
            f"rotary_embedding takes caches of {rank} axes {given} position_ids, but got {cos_cache.ndim} and "
            f"{sin_cache.ndim}: reshape them"
        )
    # Outside of an export, and where its gradient is asked for, it is computed with operators of torch.
    rotated = _rotary_embedding if is_in_onnx_export() and not is_transformed() else _rotated
    return rotated(X, cos_cache, sin_cache, position_ids, interleaved, num_heads, rotary_embedding_dim)


def _rotated(
    x: torch.Tensor,
    cos_cache: torch.Tensor,
    sin_cache: torch.Tensor,
    position_ids: torch.Tensor | None,
    interleaved: bool,
    num_heads: int,
    rotary_embedding_dim: int,
) -> torch.Tensor:
    by_head = x if x.ndim == 4 else _by_head(x, num_heads)
    size = rotary_embedding_dim or by_head.shape[-1]
    rotated, kept = by_head[..., :size], by_head[..., size:]
    cos, sin = (c if position_ids is None else c[position_ids] for c in (cos_cache, sin_cache))
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    one, other = (rotated[..., 0::2], rotated[..., 1::2]) if interleaved else rotated.chunk(2, -1)
    real, imaginary = cos * one - sin * other, sin * one + cos * other
    both = torch.stack([real, imaginary], -1).flatten(-2) if interleaved else torch.cat([real, imaginary], -1)
    result = torch.cat([both, kept], -1)
    return (result if x.ndim == 4 else _flat(result)).contiguous()


def _like(x: torch.Tensor, *rest: Any) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


_rotary_embedding = define(
    "rotary_embedding(Tensor x, Tensor cos_cache, Tensor sin_cache, Tensor? position_ids, bool interleaved, "
    "int num_heads, int rotary_embedding_dim) -> Tensor",
    _like,
)
run_by(_rotary_embedding, _rotated)
