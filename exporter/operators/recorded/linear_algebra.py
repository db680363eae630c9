"""Linear algebra: complex matrices, by real ones of twice the size; least squares; and products in other notation."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size, same_size
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.registry.recorded import instead_of, result_with_dynamic_sizes

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


@instead_of("aten::linalg_inv_ex", why=_WHY)
def _inverse(A: torch.Tensor, *, check_errors: bool = False) -> Any:
    if not A.is_complex():
        return NotImplemented
    size = A.shape[-1]
    inverse, info = _aten.linalg_inv_ex.default(_twice(A), check_errors=check_errors)
    return _joined(inverse[..., :size], size), info


@instead_of("aten::linalg_solve_ex", why=_WHY)
def _solution(A: torch.Tensor, B: torch.Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    if not A.is_complex() and not B.is_complex():
        return NotImplemented
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


@instead_of("aten::linalg_matrix_exp", why=_WHY)
def _exponential(self: torch.Tensor) -> Any:
    if not self.is_complex():
        return NotImplemented
    size = self.shape[-1]
    return _joined(_aten.linalg_matrix_exp.default(_twice(self))[..., :size], size)


@instead_of("aten::linalg_svdvals", why=_WHY)
def _singular_values(A: torch.Tensor, *, driver: str | None = None) -> Any:
    """Those of the matrix of twice the size are the same, each twice"""
    return _aten.linalg_svdvals.default(_twice(A))[..., ::2] if A.is_complex() else NotImplemented


@instead_of("aten::linalg_eigvalsh", why=_WHY)
def _eigenvalues(self: torch.Tensor, UPLO: str = "L") -> Any:
    """Likewise, of the matrix that one triangle and the real parts of the diagonal define"""
    if not self.is_complex():
        return NotImplemented
    half = self.tril(-1) if UPLO.upper() == "L" else self.triu(1)
    diagonal = torch.diag_embed(self.diagonal(dim1=-2, dim2=-1).real)
    return _aten.linalg_eigvalsh.default(_twice(half + half.mH + diagonal))[..., ::2]


@instead_of("aten::linalg_det", why=_WHY)
def _determinant(A: torch.Tensor) -> Any:
    if not A.is_complex():
        return NotImplemented
    return _pivots(A, "det").prod(-1)


@instead_of("aten::linalg_slogdet", why=_WHY)
def _sign_and_logarithm(A: torch.Tensor) -> Any:
    if not A.is_complex():
        return NotImplemented
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


# --- sizes of results -------------------------------------------------------------------------------------------------


@result_with_dynamic_sizes(
    "aten::linalg_solve_triangular",
    "aten::cholesky_solve",
    why="torch's fake kernel expands both tensors to plain ints",
)
def _solution_sizes(self: torch.Tensor, other: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
    """Of the batch of both, and the sides, which are the second tensor of the first operator; both have as many rows"""
    is_triangular = "left" in options or "upper" in options
    sides, matrices = (other, self) if is_triangular else (self, other)
    batch = torch.broadcast_shapes(sides.shape[:-2], matrices.shape[:-2])
    return sides.new_empty([*batch, *sides.shape[-2:]])


@result_with_dynamic_sizes(
    "aten::linalg_pinv.atol_rtol_tensor", why="torch's decomposition asks which of the two sizes is larger"
)
def _inverse_sizes(self: torch.Tensor, **options: Any) -> torch.Tensor:
    return self.new_empty([*self.shape[:-2], self.shape[-1], self.shape[-2]])


# --- least squares ----------------------------------------------------------------------------------------------------


@instead_of("aten::linalg_lstsq", why="torch's fake kernel fails: whether there are residuals depends on the rank")
def _lstsq(
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
        if driver != "gels" and self.dim() > 2:
            # An empty vector unless all matrices of the batch have full rank.
            residuals = torch.cond(kept.all(), torch.clone, lambda each: each.new_empty([0]), (residuals,))
        elif driver != "gels":
            residuals = residuals[kept.all().expand(residuals.shape)]
    rank = none.to(torch.int64) if driver == "gels" else kept.sum(-1)
    singular = values if driver in ("gelsd", "gelss") else none
    return solution.squeeze(-1) if is_vector else solution, residuals, rank, singular


@instead_of("aten::einsum", why="torch reshapes the operands, where a product of matrices often suffices")
def _einsum(equation: str, tensors: list[torch.Tensor], *, path: list[int] | None = None) -> Any:
    operands, arrow, out = _with_all_labels(equation, [x.ndim for x in tensors]).partition("->")
    terms = operands.split(",")
    if not arrow:
        out = "".join(label for label in sorted(operands) if operands.count(label) == 1 and label != ",")
    if len(tensors) != 2 or [len(term) for term in terms] != [x.ndim for x in tensors]:
        return NotImplemented
    if any(len(set(term)) < len(term) for term in (*terms, out)) or not set(out) <= set(operands):
        return NotImplemented
    (a, b), (x, y) = terms, tensors
    layout = _layout_of_einsum(_long_axes(a, x), _long_axes(b, y), out)
    if len(set(b) - set(a)) > 1:
        (a, b), (x, y) = (b, a), (y, x)
    batch = [label for label in a if label in b and label in out]
    summed = [label for label in a if label in b and label not in out]
    rows, columns = [label for label in a if label not in b], [label for label in b if label not in a]
    if len(columns) > 1 or len(summed) != 1 or not set(rows + columns) <= set(out):
        return NotImplemented
    lengths: tuple[Size, Size] = x.shape[a.index(summed[0])], y.shape[b.index(summed[0])]
    if (isinstance(lengths[0], int) and lengths[0] == 1) or not same_size(*lengths):
        return NotImplemented  # A size of 1 stands for any other, and torch multiplies where both are 1.
    matrices = _permuted(y, b, batch + summed + columns)
    if len(rows) > 1 and batch and list(a) == batch + rows + summed:
        # x stays as it is, and y is the same for all axes of rows but the last.
        result, order = x, batch + rows + columns
        for _ in rows[:-1]:
            matrices = matrices.unsqueeze(len(batch))
    else:
        # Those axes come first, so that those of y need not be repeated.
        result, order = _permuted(x, a, rows[:-1] + batch + rows[-1:] + summed), rows[:-1] + batch + rows[-1:] + columns
    result = result if rows or not batch else result.unsqueeze(-2)
    result = result @ (matrices if columns or not batch else matrices.unsqueeze(-1))
    if batch and not columns:
        result = result.squeeze(-1)
    if batch and not rows:
        result = result.squeeze(len(batch))
    if order != layout:
        result = _permuted(result, order, layout).contiguous()
    return _permuted(result, layout, out)


def _with_all_labels(equation: str, ranks: Sequence[int]) -> str:
    """An equation without spaces, in which the axes that `...` stands for have labels too."""
    equation = equation.replace(" ", "")
    terms = equation.partition("->")[0].split(",")
    if "..." not in equation or len(terms) != len(ranks):
        return equation
    counts = [rank - len(term) + 3 for term, rank in zip(terms, ranks, strict=True) if "..." in term]
    unused = [label for label in string.ascii_letters if label not in equation]
    if len(set(counts)) != 1 or not 0 <= counts[0] <= len(unused):
        return equation
    if "->" not in equation:  # torch puts them first.
        letters = "".join(terms).replace(".", "")
        equation += "->..." + "".join(label for label in sorted(set(letters)) if letters.count(label) == 1)
    return equation.replace("...", "".join(unused[: counts[0]]))


def _long_axes(labels: str, x: torch.Tensor) -> set[str]:
    sizes: Sequence[Size] = x.shape
    return {label for label, size in zip(labels, sizes, strict=True) if not (isinstance(size, int) and size == 1)}


def _layout_of_einsum(a: set[str], b: set[str], out: str) -> list[str]:
    """The order in memory of the axes of torch's result, on which depends what is a view of it."""
    both = [label for label in out if label in a and label in b]
    rest = [label for label in out if label not in both]
    of_a, of_b = [label for label in rest if label in a], [label for label in rest if label not in a]
    return both + of_b + of_a if rest == of_b + of_a else both + of_a + of_b


def _permuted(x: torch.Tensor, labels: Sequence[str], order: Sequence[str]) -> torch.Tensor:
    axes = [labels.index(label) for label in order]
    return x if axes == sorted(axes) else x.permute(axes)
