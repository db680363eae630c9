"""Histograms: the bin of every number is searched among the edges, and what is in each bin is counted."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx_parity.exporter.registry.recorded import decomposition_of


@decomposition_of("aten::histogram.bins_tensor")
def histogram(
    self: torch.Tensor, bins: torch.Tensor, *, weight: torch.Tensor | None = None, density: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    return _counted(self.reshape(-1, 1), [bins], weight, density), bins.clone()


@decomposition_of("aten::histogram.bin_ct")
def histogram_of_range(
    self: torch.Tensor, bins: int = 100, *, range: Sequence[float] | None = None, weight: torch.Tensor | None = None,
    density: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    numbers = self.reshape(-1, 1)
    edges = _edges(numbers, [bins], range)
    return _counted(numbers, edges, weight, density), edges[0]


@decomposition_of("aten::_histogramdd_bin_edges")
def edges_of_axes(
    self: torch.Tensor, bins: list[int], *, range: Sequence[float] | None = None, weight: torch.Tensor | None = None,
    density: bool = False,
) -> list[torch.Tensor]:  # fmt: skip
    return _edges(self.reshape(-1, self.shape[-1]), bins, range)


@decomposition_of("aten::_histogramdd_from_bin_cts")
def histogram_of_ranges(
    self: torch.Tensor, bins: list[int], *, range: Sequence[float] | None = None, weight: torch.Tensor | None = None,
    density: bool = False,
) -> torch.Tensor:  # fmt: skip
    points = self.reshape(-1, self.shape[-1])
    return _counted(points, _edges(points, bins, range), weight, density)


@decomposition_of("aten::_histogramdd_from_bin_tensors")
def histogram_of_points(
    self: torch.Tensor, bins: list[torch.Tensor], *, weight: torch.Tensor | None = None, density: bool = False
) -> torch.Tensor:
    return _counted(self.reshape(-1, self.shape[-1]), bins, weight, density)


def _edges(points: torch.Tensor, bins: list[int], limits: Sequence[float] | None) -> list[torch.Tensor]:
    """Edges of bins of one size between the limits, or between the least and the greatest number of each column"""
    edges = []
    for column, count in enumerate(bins):
        if limits is not None:
            low, high = float(limits[2 * column]), float(limits[2 * column + 1])
            low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
            edges.append(torch.linspace(low, high, count + 1, dtype=points.dtype, device=points.device))
        elif points.shape[0] == 0:
            edges.append(torch.linspace(0, 1, count + 1, dtype=points.dtype, device=points.device))
        else:
            least, greatest = points[:, column].amin(), points[:, column].amax()
            half = torch.where(least == greatest, 0.5, 0.0).to(points.dtype)
            edges.append(torch.linspace(least - half, greatest + half, count + 1, dtype=points.dtype))
    return edges


def _counted(
    points: torch.Tensor, edges: Sequence[torch.Tensor], weight: torch.Tensor | None, density: bool
) -> torch.Tensor:
    """How many points, or what weight of them, is in each bin. The last bin contains its upper edge."""
    counts = [each.shape[0] - 1 for each in edges]
    bins = torch.zeros([points.shape[0]], dtype=torch.int64, device=points.device)
    inside = torch.ones([points.shape[0]], dtype=torch.bool, device=points.device)
    for column, (each, count) in enumerate(zip(edges, counts, strict=True)):
        numbers = points[:, column]
        below = (each <= numbers.unsqueeze(-1)).sum(-1)
        bins = bins * count + (below - 1).clamp(0, count - 1)
        inside = inside & (below > 0) & (numbers <= each[-1])
    total = 1
    for count in counts:
        total = total * count
    amount = torch.ones_like(points[:, 0]) if weight is None else weight.reshape(-1).to(points.dtype)
    is_in = (bins.unsqueeze(-1) == torch.arange(total, device=points.device)) & inside.unsqueeze(-1)
    histogram = torch.where(is_in, amount.unsqueeze(-1), 0).sum(0).reshape(counts)
    if density:
        histogram = histogram / histogram.sum()
        for axis, each in enumerate(edges):
            histogram = histogram / each.diff().reshape([-1, *[1] * (len(edges) - axis - 1)])
    return histogram
