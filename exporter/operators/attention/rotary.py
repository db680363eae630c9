"""Rotary embeddings: ONNX's operator, which came with opset 23, or the operators that it consists of."""

from __future__ import annotations

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("onnx_parity::rotary_embedding", "onnx::RotaryEmbedding")
def rotary_embedding(
    g: Graph, x: Value, cos_cache: Value, sin_cache: Value, position_ids: Value | None = None,
    interleaved: bool = False, num_heads: int = 0, rotary_embedding_dim: int = 0,
) -> Value:  # fmt: skip
    """Each pair (a, b) of features becomes (a cos - b sin, a sin + b cos)"""
    if g.has_kernel("RotaryEmbedding", x.dtype):
        return g.op(
            "RotaryEmbedding", x, cos_cache, sin_cache, position_ids, interleaved_i=int(interleaved) or None,
            num_heads_i=num_heads or None, rotary_embedding_dim_i=rotary_embedding_dim or None,
        )  # fmt: skip
    # A tensor of three axes has the heads in the last one.
    heads_axis = 1 if x.rank == 4 else 2
    y = x if x.rank == 4 else g.reshape(x, [*x.sizes[:2], num_heads, x.sizes[2] // num_heads])
    size = rotary_embedding_dim or y.sizes[3]
    half = size // 2
    angles = []
    for cache in (cos_cache, sin_cache):
        found = cache if position_ids is None else g.gather(cache, position_ids, 0)
        batch, length = (y.sizes[0], y.sizes[3 - heads_axis])
        angles.append(g.unsqueeze(shaped(found, (batch, length, half)), [heads_axis]))
    cos, sin = angles
    whole = (*y.sizes[:3], half)
    if interleaved:
        one, other = (shaped(g.slice(y, [3], [first], [size], [2]), whole) for first in (0, 1))
    else:
        one, other = (shaped(g.slice(y, [3], [start], [start + half]), whole) for start in (0, half))
    real = g.op("Sub", g.op("Mul", cos, one), g.op("Mul", sin, other))
    imaginary = g.op("Add", g.op("Mul", sin, one), g.op("Mul", cos, other))
    if interleaved:
        pairs = g.op(
            "Concat", g.unsqueeze(shaped(real, whole), [4]), g.unsqueeze(shaped(imaginary, whole), [4]), axis_i=4
        )
        parts = [g.reshape(pairs, [*y.sizes[:3], size])]
    else:
        parts = [real, imaginary]
    if rotary_embedding_dim:
        parts.append(g.slice(y, [3], [size], [torch.iinfo(torch.int64).max]))
    result = parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis_i=3)
    return result if x.rank == 4 else g.reshape(shaped(result, y.shape), x.sizes)
