"""Distances between the rows of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.reduction.lowering import vector_norm
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("aten::_cdist_forward")
def cdist(g: Graph, x1: Value, x2: Value, p: float, compute_mode: int | None = None) -> Value:
    """From each row of x1 to each row of x2, the norm of their difference"""
    one, other = g.unsqueeze(x1, [x1.rank - 1]), g.unsqueeze(x2, [x2.rank - 2])
    difference = g.op("Sub", one, other)
    if math.isinf(p):
        # torch's kernel finds the greatest difference that is a number, unlike that of pdist.
        difference = g.where(g.is_nan(difference), g.const(0, difference.dtype), difference)
    return _norm(g, difference, p, (*g.out.shape, x1.sizes[-1]))


@lowering("aten::_pdist_forward")
def pdist(g: Graph, self: Value, p: float = 2) -> Value:
    """From each row to those after it"""
    rows = self.sizes[0]
    if isinstance(rows, int):
        one, other = map(g.const, torch.triu_indices(rows, rows, offset=1))
    else:
        is_after = g.less(g.along(rows, 0, 2), g.along(rows, 1, 2))
        one, other = (g.squeeze(part, [0]) for part in g.split(g.op("NonZero", is_after), 0, [1, 1]))
    difference = g.op("Sub", *(g.op("Gather", self, each, axis_i=0) for each in (one, other)))
    return _norm(g, difference, p, (*g.out.shape, self.sizes[1]))


def _norm(g: Graph, difference: Value, p: float, sizes: Sequence[Size]) -> Value:
    norm = vector_norm(g, shaped(difference, sizes), p, [-1])
    if math.isinf(p) and not (isinstance(sizes[-1], int) and sizes[-1] > 0):
        # The maximum over no features is the lowest number. torch's distance is 0.
        norm = g.extreme("Max", norm, g.const(0, norm.dtype))
    return norm
