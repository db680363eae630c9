"""What is recorded for covariances and correlations where sizes are dynamic; the result of bincount."""

from __future__ import annotations

import torch

from onnx_parity.exporter.graph.graph import same_size
from onnx_parity.exporter.registry.recorded import any_size_is_dynamic, instead_of
from onnx_parity.exporter.registry.results import Contiguous, result_of


@instead_of("aten::cov", where=any_size_is_dynamic, why="torch's own reads sizes as plain ints")
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
