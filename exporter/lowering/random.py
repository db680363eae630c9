"""Operators that draw random numbers, dropout in training among them."""

from __future__ import annotations

import torch

from exporter.lowering.builder import Graph
from exporter.lowering.registry import lowering
from exporter.lowering.values import Value


@lowering("aten::native_dropout")
def native_dropout(g: Graph, input: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    if train is False or p == 0:
        return input, g.full(g.out.shape, True, torch.bool)
    if p == 1:
        return g.op("Mul", input, 0), g.full(g.out.shape, False, torch.bool)
    kept = g.op("Not", g.less(g.uniform(g.out.shape, torch.float32), g.const(p, torch.float32)))
    return g.op("Mul", input, g.op("Mul", g.cast(kept, input.dtype), 1 / (1 - p))), kept


@lowering("aten::bernoulli.p", "aten::bernoulli.default", "aten::bernoulli")
def bernoulli(g: Graph, self: Value, p: float | None = None) -> Value:
    """1 with probability p, else 0; without p, the tensor holds the probabilities"""
    drawn = g.uniform(g.out.shape, torch.float32)
    chance = g.const(p, torch.float32) if p is not None else g.cast(self, torch.float32)
    return g.cast(g.less(drawn, chance), g.out.dtype)
