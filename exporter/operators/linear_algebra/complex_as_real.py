"""Linear algebra of complex matrices, by real ones of twice the size."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.registry.recorded import any_is_complex, instead_of

_aten = torch.ops.aten

_WHY = "the loops of the lowerings are over real columns, and a complex matrix is a real one of twice the size"


def _twice(a: torch.Tensor) -> torch.Tensor:
    """The real matrix that does to the real parts above the imaginary ones what a complex one does."""
    return torch.cat([torch.cat([a.real, -a.imag], -1), torch.cat([a.imag, a.real], -1)], -2)


def _parts(x: torch.Tensor) -> torch.Tensor:
    """Real parts above the imaginary ones; those of a real matrix are zeros."""
    return torch.cat([x.real, x.imag] if x.is_complex() else [x, torch.zeros_like(x)], -2)


def _joined(x: torch.Tensor, size: Size) -> torch.Tensor:
    return torch.complex(x[..., :size, :], x[..., size:, :])


@instead_of("aten::linalg_inv_ex", where=any_is_complex, why=_WHY)
def inv_ex(A: torch.Tensor, *, check_errors: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    size = A.shape[-1]
    inverse, info = _aten.linalg_inv_ex.default(_twice(A), check_errors=check_errors)
    return _joined(inverse[..., :size], size), info


@instead_of("aten::linalg_solve_ex", where=any_is_complex, why=_WHY)
def solve_ex(
    A: torch.Tensor, B: torch.Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    a = A if A.is_complex() else torch.complex(A, torch.zeros_like(A))
    # As torch decides it, a batch of vectors has the shape of the matrices without their last axis.
    is_vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    b = B.unsqueeze(-1) if is_vector else B
    if not left:
        a, b = a.mT, b.mT
    x, info = _aten.linalg_solve_ex.default(_twice(a), _parts(b), check_errors=check_errors)
    solution = _joined(x, a.shape[-1])
    if not left:
        solution = solution.mT
    return solution.squeeze(-1) if is_vector else solution, info


@instead_of("aten::linalg_matrix_exp", where=any_is_complex, why=_WHY)
def matrix_exp(self: torch.Tensor) -> torch.Tensor:
    size = self.shape[-1]
    return _joined(_aten.linalg_matrix_exp.default(_twice(self))[..., :size], size)


@instead_of("aten::linalg_svdvals", where=any_is_complex, why=_WHY)
def svdvals(A: torch.Tensor, *, driver: str | None = None) -> Any:
    """Those of the matrix of twice the size are the same, each twice"""
    return _aten.linalg_svdvals.default(_twice(A))[..., ::2]


@instead_of("aten::linalg_eigvalsh", where=any_is_complex, why=_WHY)
def eigvalsh(self: torch.Tensor, UPLO: str = "L") -> Any:
    """Likewise, of the matrix that one triangle and the real parts of the diagonal define"""
    half = self.tril(-1) if UPLO.upper() == "L" else self.triu(1)
    diagonal = torch.diag_embed(self.diagonal(dim1=-2, dim2=-1).real)
    return _aten.linalg_eigvalsh.default(_twice(half + half.mH + diagonal))[..., ::2]


@instead_of("aten::linalg_det", where=any_is_complex, why=_WHY)
def det(A: torch.Tensor) -> torch.Tensor:
    return _pivots(A, "det").prod(-1)


@instead_of("aten::linalg_slogdet", where=any_is_complex, why=_WHY)
def slogdet(A: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    pivots = _pivots(A, "slogdet")
    size = pivots.abs()
    return torch.where(size == 0, 0, pivots / size).prod(-1), size.log().sum(-1)


def _pivots(a: torch.Tensor, name: str) -> torch.Tensor:
    """The pivots of Gauss's elimination, with the signs of its exchanges of rows."""
    size: Size = a.shape[-1]
    if not isinstance(size, int) or size > 16:
        raise refused_here(
            f"the program calls {name} of complex matrices with a dynamic size, or with more than 16 columns, whose "
            "elimination is written out column by column: give smaller matrices of a fixed size"
        )
    found = []
    for _ in range(size):
        column = a[..., 0]
        row = column.abs().argmax(-1, keepdim=True)
        pivot = column.gather(-1, row)
        # The pivot's row is exchanged with the first one, which changes the sign if they are two.
        others = row.unsqueeze(-1)
        first, chosen = a[..., :1, :], a.gather(-2, others.expand(*row.shape, a.shape[-1]))
        place = torch.arange(a.shape[-2], device=a.device).unsqueeze(-1)
        rest = torch.where(place == others, first, a)[..., 1:, :]
        found.append(torch.where(row == 0, pivot, -pivot))
        factors = torch.where(pivot == 0, 0, rest[..., 0] / pivot)
        a = rest[..., 1:] - factors.unsqueeze(-1) * chosen[..., 1:]
    return torch.cat(found, -1) if found else torch.ones([*a.shape[:-2], 0], dtype=a.dtype, device=a.device)
