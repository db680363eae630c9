"""Attention among the rows of nested tensors."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.kinds.nested.jagged import Jagged
from onnx_parity.exporter.kinds.nested.nested import Function, refused
from onnx_parity.exporter.kinds.nested.strided import Strided


@Jagged.rule("scaled_dot_product_attention")
def _attention_jagged(
    func: Function, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Jagged:  # fmt: skip
    """The attention of padded queries to those keys that are no padding."""
    if attn_mask is not None or not all(isinstance(each, Jagged) for each in (query, key, value)):
        raise refused("scaled_dot_product_attention with a mask, or with dense tensors")
    if query.ndim > 3 and query._ragged_idx == key._ragged_idx == value._ragged_idx == 1:
        dense = (query.values(), key.values(), value.values())
        made = F.scaled_dot_product_attention(*dense, None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        return query.alike(made)  # type: ignore[no-any-return]
    if any(each.ndim != 4 or each._ragged_idx != 2 for each in (query, key, value)) or not key.has_rows_of(value):
        raise refused(
            "scaled_dot_product_attention unless all have the axes of rows, heads, positions and features, in this "
            "order, and keys and values the same offsets"
        )
    length = query.longest()
    of_keys = length if key.has_rows_of(query) else key.longest()
    place = torch.arange(of_keys, device=query.device)
    mask = (place < key.lengths_of_rows().unsqueeze(1)).unflatten(0, (-1, 1, 1))
    if is_causal:
        mask = mask & (place <= torch.arange(length, device=query.device).unsqueeze(1))
    made = F.scaled_dot_product_attention(
        query.padded(0, length), key.padded(0, of_keys), value.padded(0, of_keys), mask, dropout_p, scale=scale,
        enable_gqa=enable_gqa,
    )  # fmt: skip
    return query.of_batch(made)  # type: ignore[no-any-return]


@Strided.rule("scaled_dot_product_attention")
def _attention_strided(func: Function, query: Any, key: Any, value: Any, *args: Any, **options: Any) -> Strided:
    if not all(isinstance(each, Strided) for each in (query, key, value)) or args or options.get("attn_mask"):
        raise refused("scaled_dot_product_attention with a mask, or with dense tensors")
    return query.each(F.scaled_dot_product_attention, query, key, value, **options)  # type: ignore[no-any-return]
