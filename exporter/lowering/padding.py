"""Padding: with a constant, by reflection, by replication."""

from __future__ import annotations

from exporter.capture.graph import Size
from exporter.lowering.builder import Graph
from exporter.lowering.registry import lowering
from exporter.lowering.values import Value


@lowering("aten::constant_pad_nd")
def constant_pad_nd(g: Graph, self: Value, pad: list[Size], value: float = 0) -> Value:
    """`pad` holds (before, after) pairs from the last axis on"""
    before: list[Size] = [0] * self.rank
    after: list[Size] = [0] * self.rank
    for number in range(len(pad) // 2):
        before[self.rank - 1 - number] = pad[2 * number]
        after[self.rank - 1 - number] = pad[2 * number + 1]
    return g.pad(self, before, after, value=value)
