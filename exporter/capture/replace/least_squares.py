"""Least squares, which torch records no sizes of: its fake kernel fails, because the residuals depend on the rank."""

from __future__ import annotations

import torch

from onnx_parity.exporter.capture.replace.registry import instead_of

_aten = torch.ops.aten


@instead_of(
    _aten.linalg_lstsq.default, why="torch's fake kernel fails: whether there are residuals depends on the rank"
)
def _lstsq(
    self: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The solution of least norm, by singular values: V @ diag(1 / s) @ U.T @ b, without those that are negligible."""
    rows, columns = self.shape[-2:]
    is_vector = b.dim() == 1 or (self.dim() - 1 == b.dim() and b.shape == self.shape[:-1])
    sides = b.unsqueeze(-1) if is_vector else b
    u, values, vt = torch.linalg.svd(self, full_matrices=False)
    if driver == "gels":  # It assumes full rank.
        kept = values > 0
    else:
        limit = torch.finfo(self.dtype).eps * torch.sym_max(rows, columns) if rcond is None else rcond
        kept = values > limit * values[..., :1]
    weights = torch.where(kept, 1 / torch.where(kept, values, 1), 0).unsqueeze(-1)
    solution = vt.mT @ (weights * (u.mT @ sides))
    none = self.new_empty([0])
    residuals = none
    is_known = {type(rows), type(columns)} == {int}
    if driver not in (None, "gelsy") and is_known and rows > columns:
        residuals = (sides - self @ solution).square().sum(-2)
        if driver != "gels" and self.dim() > 2:
            # An empty vector unless all matrices of the batch have full rank.
            residuals = torch.cond(kept.all(), torch.clone, lambda each: each.new_empty([0]), (residuals,))
        elif driver != "gels":
            residuals = residuals[kept.all().expand(residuals.shape)]
    rank = none.to(torch.int64) if driver == "gels" else kept.sum(-1)
    singular = values if driver in ("gelsd", "gelss") else none
    return solution.squeeze(-1) if is_vector else solution, residuals, rank, singular
