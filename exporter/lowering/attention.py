"""Attention: softmax(query @ key.T) @ value, with every kind of mask."""

from __future__ import annotations

import math

import torch

from exporter.lowering.builder import Graph
from exporter.lowering.registry import lowering
from exporter.lowering.values import Value


@lowering("aten::scaled_dot_product_attention")
def scaled_dot_product_attention(
    g: Graph, query: Value, key: Value, value: Value, attn_mask: Value | None = None, dropout_p: float = 0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    """softmax(query @ key.T * scale + mask) @ value; a row that may attend to nothing gives zeros, not NaN"""
    if enable_gqa:
        g.unsupported("grouped-query attention")
    size = query.sizes[-1]
    if not isinstance(size, int):
        g.unsupported("attention over features whose number varies")
    factor = scale if scale is not None else 1 / math.sqrt(size)
    swap = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    scores = g.op("MatMul", g.op("Mul", query, factor), g.transpose(key, swap))
    scores.shape = (*g.out.shape[:-1], key.sizes[-2])
    if is_causal:
        rows, columns = scores.sizes[-2:]
        if not (isinstance(rows, int) and isinstance(columns, int)):
            g.unsupported("causal attention over a length that varies")
        attn_mask = g.const(torch.ones(rows, columns, dtype=torch.bool).tril())
    shape = scores.shape
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        scores = g.where(attn_mask, scores, g.const(-math.inf, scores.dtype))
    elif attn_mask is not None:
        scores = g.op("Add", scores, attn_mask)
    scores.shape = shape
    weights = g.softmax(scores, len(shape) - 1)
    if attn_mask is not None and not is_causal:
        # The softmax of a fully masked row is NaN.
        weights = g.where(g.not_number(weights), g.const(0, weights.dtype), weights)
    if dropout_p:
        weights = g.dropout(weights, dropout_p)
    return g.op("MatMul", weights, value)
