"""Reductions over axes: mean, sum and their kin."""

from __future__ import annotations

import torch

from exporter.lowering.builder import Graph
from exporter.lowering.registry import lowering
from exporter.lowering.values import Value


def axes_of(x: Value, dim: int | list[int] | None) -> list[int] | None:
    """The axes that `dim` means, from 0; None for all: in torch no dims at all mean all of them."""
    if dim is None or (isinstance(dim, list) and not dim):
        return None
    dims = dim if isinstance(dim, list) else [dim]
    return sorted(d % max(x.rank, 1) for d in dims)


@lowering("aten::mean")
def mean(
    g: Graph, self: Value, dim: list[int] | None = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Value:
    x = g.cast(self, g.out.dtype)
    if x.rank == 0:
        return x
    axes = axes_of(x, dim)
    if axes == list(range(2, x.rank)) and keepdim:
        return g.op("GlobalAveragePool", x)
    return g.reduce("Mean", x, axes, keepdim)


@lowering("aten::sum")
def sum_(
    g: Graph, self: Value, dim: list[int] | None = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Value:
    x = g.cast(self, g.out.dtype)
    return x if x.rank == 0 else g.reduce("Sum", x, axes_of(x, dim), keepdim)
