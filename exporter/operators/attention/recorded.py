"""What is recorded for attention, which is kept whole."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.dispatch.gradients import is_seen_once
from onnx_parity.exporter.registry.recorded import instead_of, keep_whole

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
