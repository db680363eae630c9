"""Scaled dot product attention, and the softmax that is 0 for rows of -inf."""

from __future__ import annotations

import math

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.magnitudes import (
    each_row_is_above_the_lowest,
    largest_magnitude,
    may_have_the_lowest,
)
from onnx_parity.exporter.lowering.values.shapes import never_exceeds, same_size, shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.attention.shared_heads import multiply_shared, unrepeated
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("aten::scaled_dot_product_attention")
def scaled_dot_product_attention(
    g: Graph, query: Value, key: Value, value: Value, attn_mask: Value | None = None, dropout_p: float = 0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    """softmax(query @ key.T * scale + mask) @ value, and 0 for a row whose mask excludes everything"""
    if any(same_size(size, 0) for size in key.sizes[:-1]):
        return _of_no_keys(g, query)
    if attn_mask is not None and _excludes_nothing(attn_mask, query):
        attn_mask = None
    if query.rank == 4 and not (enable_gqa or dropout_p):
        shared = unrepeated(key), unrepeated(value)
        if shared[0] is not key and shared[1] is not value and same_size(shared[0].sizes[1], shared[1].sizes[1]):
            (key, value), enable_gqa = shared, True
    plain = not dropout_p and {query.rank, key.rank, value.rank} == {4} and _shares_batch(query, key, value, enable_gqa)
    if plain and _fits(attn_mask, query, key) and g.has_kernel("Attention", query.dtype, "T1"):
        masks = [] if attn_mask is None else [_added(g, attn_mask, query.dtype)]
        whole = g.op("Attention", query, key, value, *masks, is_causal_i=int(is_causal) or None, scale_f=scale)
        return whole if attn_mask is None else _without_empty_rows(g, shaped(whole, g.out.shape), attn_mask)
    scores = _scores(g, query, key, scale, enable_gqa)
    if attn_mask is not None:
        attn_mask = _unrepeated(attn_mask)
    if attn_mask is not None and attn_mask.dtype is not torch.bool:
        attn_mask = g.cast(attn_mask, scores.dtype)
    # A row of NaN stays one in the product, which mostly has fewer elements than the weights. It is 0 then, as with
    # ONNX's Attention, also where torch multiplies 0 by infinite values.
    zeroed_early = attn_mask is not None and never_exceeds(key.sizes[-2], value.sizes[-1])
    weights = _weights(g, scores, _causal_mask(g, scores) if is_causal else attn_mask)
    if attn_mask is not None and zeroed_early:
        weights = _without_empty_rows(g, weights, attn_mask)
    if dropout_p:
        weights = g.dropout(weights, dropout_p)
    result = shaped(_multiplied(g, weights, value, enable_gqa), g.out.shape)
    return result if attn_mask is None or zeroed_early else _without_empty_rows(g, result, attn_mask)


def _of_no_keys(g: Graph, query: Value) -> Value:
    """0, whatever the mask. For its gradients torch adds 0 times the sum of all queries, which is NaN if one is."""
    total = g.reduce("Sum", g.accumulating(query), None, False)
    return g.op("Add", g.full(g.out.shape, 0, g.out.dtype), g.cast(g.op("Mul", total, 0), g.out.dtype))


@lowering("aten::_safe_softmax")
def safe_softmax(g: Graph, self: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    """Softmax, and 0 for a row of -inf only"""
    x = g.cast(self, g.out.dtype)
    return g.safe_softmax(x, dim % max(self.rank, 1))


def _excludes_nothing(mask: Value, query: Value) -> bool:
    """Whether a mask is known to leave all scores as they are, as one that the program makes of ones only."""
    if mask.everywhere != (1 if mask.dtype is torch.bool else 0) or mask.rank > query.rank:
        return False
    batches = zip(mask.sizes[:-2][::-1], query.sizes[:-2][::-1], strict=False)
    return all(same_size(own, 1) or same_size(own, wanted) for own, wanted in batches)


def _shares_batch(query: Value, key: Value, value: Value, grouped: bool) -> bool:
    """Whether the batch axes are equal: ONNX's Attention does not broadcast them."""
    batches = [tensor.sizes[: 1 if grouped else 2] for tensor in (query, key, value)]
    return all(same_size(a, b) for other in batches[1:] for a, b in zip(batches[0], other, strict=True))


def _fits(mask: Value | None, query: Value, key: Value) -> bool:
    """Whether ONNX's Attention takes a mask: with all rows and columns, and other axes that are equal or 1."""
    if mask is None:
        return True
    whole = (*query.sizes[:-1], key.sizes[-2])
    if mask.dtype not in (torch.bool, query.dtype) or mask.rank < 2:
        return False
    pairs = list(zip(mask.sizes, whole[4 - mask.rank :], strict=True))
    broadcast = all(same_size(own, wanted) or same_size(own, 1) for own, wanted in pairs[:-2])
    return broadcast and all(same_size(own, wanted) for own, wanted in pairs[-2:])


def _unrepeated(mask: Value) -> Value:
    """The mask that a mask repeats for more rows, heads or samples, where all that reads it broadcasts."""
    source = mask.repeats
    return source if source is not None and source.rank and same_size(source.sizes[-1], mask.sizes[-1]) else mask


def _added(g: Graph, mask: Value, dtype: torch.dtype) -> Value:
    """A mask as onnxruntime's Attention takes it best.

    1. In numbers: it would make them of booleans anew for each layer and head, which takes as long as the rest of a
       step of decoding at 1,500 tokens.
    2. Without the lowest number: it returns 0 for a row that has no other, where torch returns a mean (weighted by the
       scores if they are halves, and nearly equally here).
    """
    if mask.dtype is torch.bool:
        return g.where(mask, g.const(0, dtype), g.const(-math.inf, dtype))
    if not may_have_the_lowest(mask.ir) or each_row_is_above_the_lowest(mask.ir):
        return mask
    limits = torch.finfo(mask.dtype)
    return g.extreme("Max", mask, g.const(limits.min * (1 - 4 * limits.eps), mask.dtype))


def _scores(g: Graph, query: Value, key: Value, scale: float | None, grouped: bool) -> Value:
    swap = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    size = query.sizes[-1]
    if scale is None and isinstance(size, int):
        # Without features all scores are 0, whatever the scale.
        scale = 1 / math.sqrt(size or 1)
    if scale is None:
        scaled = g.op("Div", query, g.op("Sqrt", g.scalar(size, query.dtype)))
    else:
        scaled = query if scale == 1 else g.op("Mul", query, scale)
    product = _multiplied(g, scaled, g.transpose(key, swap), grouped)
    return shaped(product, (*g.out.shape[:-1], key.sizes[-2]))


def _multiplied(g: Graph, rows: Value, other: Value, grouped: bool) -> Value:
    if grouped and not (isinstance(rows.sizes[-3], int) and isinstance(other.sizes[-3], int)):
        g.unsupported(
            "enable_gqa=True with a dynamic number of heads is not supported: remove that axis from dynamic_axes"
        )
    return multiply_shared(g, rows, other) if grouped else g.matmul(rows, other)


def _causal_mask(g: Graph, scores: Value) -> Value:
    """True where the column is at most the row."""
    rows, columns = scores.sizes[-2:]
    if isinstance(rows, int) and isinstance(columns, int):
        return g.const(torch.ones(rows, columns, dtype=torch.bool).tril())
    later = g.less(g.along(rows, 0, 2), g.along(columns, 1, 2))
    return g.op("Not", later)


def _weights(g: Graph, scores: Value, mask: Value | None) -> Value:
    axis = scores.rank - 1
    if mask is None:
        return shaped(g.softmax(scores, axis), scores.shape)
    lowest = g.const(-math.inf, scores.dtype)
    masked = g.where(mask, scores, lowest) if mask.dtype is torch.bool else g.op("Add", scores, mask)
    return shaped(g.softmax(shaped(masked, scores.shape), axis), scores.shape)


def _without_empty_rows(g: Graph, x: Value, mask: Value) -> Value:
    """0 in the rows whose mask excludes everything, where ONNX's Softmax and Attention give NaN."""
    if mask.dtype.is_floating_point and (
        largest_magnitude(mask.ir) is not None or each_row_is_above_the_lowest(mask.ir)
    ):
        return x
    mask = _unrepeated(mask)
    known = (mask.repeats or mask).constant
    if known is not None and not bool(_empty_rows(known).any()):
        return x
    if mask.dtype is torch.bool:
        attends = g.reduce("Max", g.cast(mask, torch.float32), [mask.rank - 1], True)
        is_empty = g.equal(attends, g.const(0, torch.float32))
    else:
        is_empty = g.equal(g.reduce("Max", mask, [mask.rank - 1], True), g.const(-math.inf, mask.dtype))
    return shaped(g.where(is_empty, g.const(0, x.dtype), x), x.shape)


def _empty_rows(mask: torch.Tensor) -> torch.Tensor:
    """The rows whose mask excludes everything: their softmax is NaN, which torch replaces by zeros."""
    return ~mask.any(-1) if mask.dtype is torch.bool else mask.amax(-1) == -math.inf
