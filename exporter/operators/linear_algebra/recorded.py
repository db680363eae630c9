"""What is recorded for products and norms of matrices, and for least squares."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.registry.in_place import DYNAMIC, DYNAMIC_HALVES, copy_back
from onnx_parity.exporter.registry.recorded import (
    any_size_is_dynamic,
    instead_of,
    keep_whole,
)
from onnx_parity.exporter.torch_inside import reference_kernels

copy_back("addbmm_", "addr_", to=DYNAMIC)
copy_back("addmm_", to=DYNAMIC_HALVES)
keep_whole(
    "aten::linear",
    "aten::matmul",
    "aten::bilinear",
    why="torch decomposes products into transpositions, reshapes and addmm or bmm; ONNX has MatMul and Gemm",
)


@instead_of(
    "aten::linalg_matrix_norm",
    "aten::linalg_matrix_norm.str_ord",
    where=any_size_is_dynamic,
    why="torch's own reads sizes as plain ints",
)
def matrix_norm(
    self: torch.Tensor, ord: float | str = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Any:  # fmt: skip
    if ord not in ("nuc", 2, -2):
        result = reference_kernels.matrix_norm(self, ord, tuple(dim), keepdim, dtype=dtype)
        # The greatest of no numbers, -inf, is a norm of 0.
        return result.clamp(min=0) if ord in (1, math.inf) else result
    rows, columns = (axis % self.ndim for axis in dim)
    values = torch.linalg.svdvals((self if dtype is None else self.to(dtype)).movedim((rows, columns), (-2, -1)))
    norm = values.sum(-1) if ord == "nuc" else values.amax(-1).clamp(min=0) if ord == 2 else values.amin(-1)
    if keepdim:
        for axis in sorted((rows, columns)):
            norm = norm.unsqueeze(axis)
    return norm


@instead_of(
    "aten::linalg_norm",
    "aten::linalg_norm.ord_str",
    where=any_size_is_dynamic,
    why="torch's own reads sizes as plain ints",
)
def norm(
    self: torch.Tensor, ord: float | str | None = None, dim: Sequence[int] | None = None, keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Any:  # fmt: skip
    axes = tuple(range(self.ndim)) if dim is None else tuple(dim)
    if ord is not None and len(axes) == 2:
        return torch.linalg.matrix_norm(self, ord, axes, keepdim, dtype=dtype)
    assert not isinstance(ord, str), "torch has refused it"
    return torch.linalg.vector_norm(self, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@instead_of("aten::linalg_multi_dot", where=any_size_is_dynamic, why="torch's own reads sizes as plain ints")
def multi_dot(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """From the left to the right. Which order takes the least time depends on the sizes."""
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    return functools.reduce(torch.matmul, tensors)


@instead_of("aten::kron", where=any_size_is_dynamic, why="torch's own reads sizes as plain ints")
def kron(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    axes = max(self.ndim, other.ndim)
    ours = (*[1] * (axes - self.ndim), *self.shape)
    theirs = (*[1] * (axes - other.ndim), *other.shape)
    left = self.reshape([size for each in ours for size in (each, 1)])
    right = other.reshape([size for each in theirs for size in (1, each)])
    return (left * right).reshape([a * b for a, b in zip(ours, theirs, strict=True)])


@instead_of("aten::linalg_vander", where=any_size_is_dynamic, why="torch's own reads sizes as plain ints")
def vander(x: torch.Tensor, N: int | None = None) -> Any:
    """The powers of the elements, from 0 on."""
    powers = [torch.ones_like(x)]
    for _ in range((x.shape[-1] if N is None else N) - 1):
        powers.append(powers[-1] * x)
    return torch.stack(powers, -1)


@instead_of("aten::vander", where=any_size_is_dynamic, why="torch's own reads sizes as plain ints")
def vander_downwards(x: torch.Tensor, N: int | None = None, increasing: bool = False) -> Any:
    powers = vander(x, N)
    return powers if increasing else powers.flip(1)


# --- solutions --------------------------------------------------------------------------------------------------------


@instead_of("aten::linalg_lstsq", why="torch's fake kernel fails: whether there are residuals depends on the rank")
def lstsq(
    self: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The solution of least norm, by singular values: V @ diag(1 / s) @ U.H @ b, without those that are negligible."""
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
    solution = vt.mH @ (weights * (u.mH @ sides))
    none = self.new_empty([0], dtype=self.dtype.to_real())
    residuals = none
    is_known = {type(rows), type(columns)} == {int}
    if driver not in (None, "gelsy") and is_known and rows > columns:
        residuals = (sides - self @ solution).abs().square().sum(-2)
        if driver == "gels" and columns == 0:
            residuals = torch.zeros_like(residuals)  # As LAPACK has them, which does nothing then.
        elif driver != "gels" and self.dim() > 2:
            # An empty vector unless all matrices of the batch have full rank.
            residuals = torch.cond(kept.all(), torch.clone, lambda each: each.new_empty([0]), (residuals,))
        elif driver != "gels":
            residuals = residuals[kept.all().expand(residuals.shape)]
    rank = none.to(torch.int64) if driver == "gels" else kept.sum(-1)
    singular = values if driver in ("gelsd", "gelss") else none
    return solution.squeeze(-1) if is_vector else solution, residuals, rank, singular
