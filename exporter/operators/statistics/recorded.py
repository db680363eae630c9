"""What is recorded for covariances, correlations and histograms; the result of bincount."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx_parity.exporter.graph.graph import same_size
from onnx_parity.exporter.registry.recorded import any_size_is_dynamic, decomposition_of, instead_of
from onnx_parity.exporter.registry.results import Contiguous, result_of


def _is_weighed_or_dynamic(tensors: Sequence[torch.Tensor]) -> bool:
    return len(tensors) > 1 or any_size_is_dynamic(tensors)


@instead_of(
    "aten::cov",
    where=_is_weighed_or_dynamic,
    why="torch's own reads sizes as plain ints, and reads from the weights whether degrees of freedom are left",
)
def cov(
    self: torch.Tensor, correction: int = 1, fweights: torch.Tensor | None = None, aweights: torch.Tensor | None = None
) -> torch.Tensor:
    return _covariances(self, correction, fweights, aweights).squeeze()


@instead_of("aten::corrcoef", where=any_size_is_dynamic, why="torch's own reads sizes as plain ints")
def corrcoef(self: torch.Tensor) -> torch.Tensor:
    covariances = _covariances(self, 1, None, None)
    deviations = covariances.diagonal().real.sqrt()
    found = covariances / deviations.unsqueeze(1) / deviations
    if found.is_complex():
        return torch.complex(found.real.clamp(-1, 1), found.imag.clamp(-1, 1)).squeeze()
    return found.clamp(-1, 1).squeeze()


def _covariances(
    self: torch.Tensor, correction: int, fweights: torch.Tensor | None, aweights: torch.Tensor | None
) -> torch.Tensor:
    """The covariances of the rows, always as a matrix. A vector is one row."""
    x = self if self.ndim == 2 else self.reshape(1, -1)
    x = x if x.is_floating_point() or x.is_complex() else x.to(torch.get_default_dtype())
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    weighed = x if weights is None else x * weights
    total = torch.full((), x.shape[1], dtype=torch.int64) if weights is None else weights.sum()
    degrees = total - correction
    if weights is not None and aweights is not None and correction:
        degrees = total - correction * (weights * aweights).sum() / total
    centred = x - (weighed.sum(1) / total).unsqueeze(1)
    if weights is not None:
        # One observation is its own mean, also where rounding says otherwise.
        centred = torch.where(torch.full((), x.shape[1], device=x.device) == 1, 0, centred)
    products = centred @ (centred if weights is None else centred * weights).t().conj()
    return products / degrees.clamp(min=0)


@result_of(
    "aten::bincount",
    why=(
        "torch 2.11's fake kernel gives sums of weights the dtype of counts; that of no version knows that torch "
        "returns counts for an empty tensor, with weights or without"
    ),
    static=False,
)
def bincount(self: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0) -> Contiguous:
    counts: torch.Tensor = torch.ops.aten.bincount.default(self, weights, minlength)
    if weights is None or same_size(self.shape[0], 0):
        dtype = torch.int64
    else:
        dtype = torch.float32 if weights.dtype is torch.float32 else torch.float64
    return Contiguous(dtype, tuple(counts.shape))


# --- if it has no lowering --------------------------------------------------------------------------------------------


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
