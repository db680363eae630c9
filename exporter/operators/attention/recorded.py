"""What is recorded for attention, which is kept whole, and for the fused kernels of layers that have attention."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.dispatch.gradients import is_seen_once
from onnx_parity.exporter.registry.recorded import decomposition_of, instead_of, keep_whole

__all__ = ["MASK_OF_KEYS"]

_aten = torch.ops.aten

keep_whole(
    "aten::scaled_dot_product_attention",
    why="torch chooses a kernel for the device, but the definition of attention does not depend on the device",
)


@instead_of(
    "aten::scaled_dot_product_attention",
    why="the kernels that torch chooses have derivatives that are kernels too; those of the definition are operators",
)
def attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, *args: Any,
    **kwargs: Any,
) -> Any:  # fmt: skip
    if is_seen_once((query, key, value, attn_mask)):
        return NotImplemented
    if attn_mask is not None and attn_mask.dtype is torch.bool:  # The definition adds masks.
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -torch.inf)
    return _aten._scaled_dot_product_attention_math.default(query, key, value, attn_mask, *args, **kwargs)[0]


# --- if it has no lowering --------------------------------------------------------------------------------------------


_FUSED = "nn.MultiheadAttention and nn.TransformerEncoderLayer call it in eval mode without gradients"
#: The `mask_type` of a mask of one row for each batch. The other masks have a row for each query, or also batches and
#: heads.
MASK_OF_KEYS = 1


@decomposition_of("aten::_native_multi_head_attention", why=_FUSED)
def multi_head_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, embed_dim: int, num_head: int,
    qkv_weight: torch.Tensor, qkv_bias: torch.Tensor, proj_weight: torch.Tensor, proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None, need_weights: bool = True, average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:  # fmt: skip
    """The output, and softmax(q k^T / sqrt(d)), averaged over the heads, if they are asked for."""
    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    q, k, v = (
        F.linear(each, weight, bias).unflatten(-1, (num_head, embed_dim // num_head)).transpose(1, 2)
        for each, weight, bias in parts
    )
    excluded = None if mask is None else _excluded(mask, mask_type)
    scores = q @ k.transpose(-2, -1) / math.sqrt(embed_dim // num_head)
    if excluded is not None:
        scores = scores.masked_fill(excluded, float("-inf"))
    weights = scores.softmax(-1)
    output = F.linear((weights @ v).transpose(1, 2).flatten(-2), proj_weight, proj_bias)
    if not need_weights:
        return output, None
    return output, weights.mean(1) if average_attn_weights else weights


def _excluded(mask: torch.Tensor, mask_type: int | None) -> torch.Tensor:
    """The places of the keys that are excluded, for each batch, head and query: those of a mask that are not 0."""
    mask = mask if mask.dtype is torch.bool else mask != 0
    return mask[:, None, None, :] if mask_type == MASK_OF_KEYS else mask


@decomposition_of("aten::_transformer_encoder_layer_fwd", why=_FUSED)
def transformer_encoder_layer(
    src: torch.Tensor, embed_dim: int, num_heads: int, qkv_weight: torch.Tensor, qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor, proj_bias: torch.Tensor, use_gelu: bool, norm_first: bool, eps: float,
    norm_weight_1: torch.Tensor, norm_bias_1: torch.Tensor, norm_weight_2: torch.Tensor, norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor, ffn_bias_1: torch.Tensor, ffn_weight_2: torch.Tensor, ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None, mask_type: int | None = None,
) -> torch.Tensor:  # fmt: skip
    def attention(x: torch.Tensor) -> torch.Tensor:
        return multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
        )[0]

    def feed_forward(x: torch.Tensor) -> torch.Tensor:
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

    def first_norm(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second_norm(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attention(first_norm(src))
        return x + feed_forward(second_norm(x))
    x = first_norm(src + attention(src))
    return second_norm(x + feed_forward(x))
