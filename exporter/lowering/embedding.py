"""Embeddings: rows of a table picked by index."""

from __future__ import annotations

import torch

from exporter.lowering.builder import Graph
from exporter.lowering.registry import lowering
from exporter.lowering.values import Value


@lowering("aten::embedding")
def embedding(
    g: Graph,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    # padding_idx, scale_grad_by_freq and sparse speak of gradients only.
    return g.op("Gather", weight, indices, axis_i=0)


@lowering("aten::embedding_renorm")
def embedding_renorm(g: Graph, self: Value, indices: Value, max_norm: float, norm_type: float) -> Value:
    """Rows longer than `max_norm` are scaled down to it, as torch does before the look-up; rows not looked up do not matter"""
    magnitude = g.op("Abs", self)
    if norm_type == 1:
        norm = g.reduce("Sum", magnitude, [1], True)
    elif norm_type == 2:
        norm = g.reduce("L2", self, [1], True)
    elif norm_type == float("inf"):
        norm = g.reduce("Max", magnitude, [1], True)
    else:
        powers = g.op("Pow", magnitude, g.const(norm_type, self.dtype))
        norm = g.op("Pow", g.reduce("Sum", powers, [1], True), g.const(1 / norm_type, self.dtype))
    scale = g.op("Div", g.const(max_norm, self.dtype), g.op("Add", norm, 1e-7))
    one = g.const(1, self.dtype)
    too_long = g.greater(norm, g.const(max_norm, torch.float32 if norm.dtype is torch.float32 else norm.dtype))
    return g.op("Mul", self, g.where(too_long, scale, one))
