"""Decompositions of complex matrices, and what is computed from them.

Some are those of a real matrix of twice the size, in which each element a + bi is [[a, -b], [b, a]]. For the others
there are operators on tensors that have the real and the imaginary part on a first axis.
"""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.dispatch.composites import whole
from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.kinds.complex_arithmetic import product
from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, complex_of, parts_of
from onnx_parity.exporter.operators.linear_algebra.complex.products import matmul
from onnx_parity.exporter.own_operators import define, run_by

_aten = torch.ops.aten

# --- a real matrix of twice the size ----------------------------------------------------------------------------------


def _interleaved(a: Parts) -> torch.Tensor:
    """Each element as a block of 2 by 2, so that triangles stay triangles."""
    rows, columns = a.real.shape[-2:]
    above, below = torch.stack([a.real, -a.imag], -1), torch.stack([a.imag, a.real], -1)
    return torch.stack([above, below], -3).reshape([*a.real.shape[:-2], 2 * rows, 2 * columns])


def _standing(x: Parts) -> torch.Tensor:
    """The parts of each row below each other."""
    return torch.stack([x.real, x.imag], -2).reshape([*x.real.shape[:-2], 2 * x.real.shape[-2], x.real.shape[-1]])


def _parts_of_rows(x: torch.Tensor) -> Parts:
    return Parts(x[..., ::2, :], x[..., 1::2, :])


def _parts_of_blocks(x: torch.Tensor) -> Parts:
    return _parts_of_rows(x[..., ::2])


def _twice(a: Parts) -> torch.Tensor:
    """The real parts of both in the place of the first and the last quarter."""
    return torch.cat([torch.cat([a.real, -a.imag], -1), torch.cat([a.imag, a.real], -1)], -2)


def _turned(x: Parts) -> Parts:
    return Parts(x.real.mT, x.imag.mT)


def _adjoint(x: Parts) -> Parts:
    return Parts(x.real.mT, -x.imag.mT)


def _hermitian(a: Parts, upper: bool) -> Parts:
    """The Hermitian matrix that one triangle and the real parts of the diagonal define."""
    half = Parts(*(part.triu(1) if upper else part.tril(-1) for part in a))
    diagonal = torch.diag_embed(a.real.diagonal(0, -2, -1))
    return Parts(half.real + half.real.mT + diagonal, half.imag - half.imag.mT)


@complex_of("aten::linalg_cholesky_ex")
def cholesky_ex(self: Parts, *, upper: bool = False, check_errors: bool = False) -> Any:
    factor, info = _aten.linalg_cholesky_ex.default(_interleaved(_hermitian(self, upper)), check_errors=check_errors)
    parts = _parts_of_blocks(factor)
    lower = Parts(parts.real, parts.imag.tril(-1))  # Its diagonal is real.
    # A minor of the complex matrix is not positive if one of the two of the real matrix is not.
    return _adjoint(lower) if upper else lower, torch.div(info + 1, 2, rounding_mode="floor").to(info.dtype)


@complex_of("aten::cholesky")
def cholesky(self: Parts, upper: bool = False) -> Any:
    return cholesky_ex(self, upper=upper)[0]


@complex_of("aten::cholesky_solve")
def cholesky_solve(self: Operand, input2: Operand, upper: bool = False) -> Parts:
    factor = parts_of(input2)
    lower = _adjoint(factor) if upper else factor
    return _parts_of_rows(_aten.cholesky_solve.default(_standing(parts_of(self)), _interleaved(lower)))


@complex_of("aten::cholesky_inverse")
def cholesky_inverse(self: Parts, upper: bool = False) -> Parts:
    inverse = _parts_of_blocks(_aten.cholesky_inverse.default(_interleaved(_adjoint(self) if upper else self)))
    return Parts(inverse.real, inverse.imag.tril(-1) + inverse.imag.triu(1))  # Its diagonal is real.


def _solved(a: Parts, b: Parts, *, upper: bool, unit: bool = False) -> Parts:
    """The solution of a @ x = b, where one triangle of `a` counts. Rows are turned to make its diagonal positive."""
    ones = torch.eye(a.real.shape[-1], dtype=a.real.dtype, device=a.real.device)
    if unit:
        diagonal = ones
    else:
        heads = [part.diagonal(0, -2, -1) for part in a]
        size = torch.hypot(*heads)
        is_zero = size == 0
        safe = torch.where(is_zero, 1, size)
        turn = Parts(torch.where(is_zero, 1, heads[0] / safe).unsqueeze(-1), (-heads[1] / safe).unsqueeze(-1))
        a, b = parts_of(product(turn, a)), parts_of(product(turn, b))
        diagonal = torch.diag_embed(size)
    others = [part.triu(1) if upper else part.tril(-1) for part in a]
    matrix = _interleaved(Parts(others[0] + diagonal, others[1]))
    return _parts_of_rows(whole(_aten.linalg_solve_triangular.default)(matrix, _standing(b), upper=upper))


@complex_of("aten::linalg_solve_triangular")
def solve_triangular(
    self: Operand, B: Operand, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Parts:
    a, b = parts_of(self), parts_of(B)
    if left:
        return _solved(a, b, upper=upper, unit=unitriangular)
    # X @ A = B is A.T @ X.T = B.T
    return _turned(_solved(_turned(a), _turned(b), upper=not upper, unit=unitriangular))


@complex_of("aten::triangular_solve")
def triangular_solve(
    self: Operand, A: Operand, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """The solution, and A, in the shapes that both broadcast to"""
    a = parts_of(A)
    x = _solved(_turned(a) if transpose else a, parts_of(self), upper=upper is not transpose, unit=unitriangular)
    shape = [*x.real.shape[:-2], *a.real.shape[-2:]]
    return x, Parts(a.real.expand(shape), a.imag.expand(shape))


@complex_of("aten::linalg_pinv.atol_rtol_tensor")
def pinv(
    self: Parts, *, atol: torch.Tensor | None = None, rtol: torch.Tensor | None = None, hermitian: bool = False
) -> Parts:
    """By the same singular values, each of which the matrix of twice the size has twice"""
    a = self.real
    rows, columns = a.shape[-2:]
    a_whole = _hermitian(self, upper=False) if hermitian else self
    if rtol is None:
        usual = torch.full((), torch.finfo(a.dtype).eps, dtype=a.dtype, device=a.device) * torch.sym_max(rows, columns)
        rtol = usual if atol is None else torch.where(atol > 0, 0, usual)
    inverse = whole(_aten.linalg_pinv.atol_rtol_tensor)(_twice(a_whole), atol=atol, rtol=rtol, hermitian=hermitian)
    return Parts(inverse[..., :columns, :rows], inverse[..., columns:, :rows])


# --- operators on both parts ------------------------------------------------------------------------------------------


def _both(x: Operand) -> torch.Tensor:
    return torch.stack(list(parts_of(x)), 0)


def _apart(x: torch.Tensor) -> Parts:
    return Parts(x.select(0, 0), x.select(0, 1))


def _complex(x: torch.Tensor) -> torch.Tensor:
    return torch.complex(x[0], x[1])


def _real(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x.real, x.imag])


def _side(a: torch.Tensor) -> Size:
    smallest: Size = torch.sym_min(a.shape[-2], a.shape[-1])
    return smallest


_LU = define(
    "complex_lu(Tensor a) -> (Tensor, Tensor)",
    lambda a: (torch.empty_like(a), a.new_empty([*a.shape[1:-2], _side(a)], dtype=torch.int32)),
)
_REFLECTIONS = define(
    "complex_reflections(Tensor a) -> (Tensor, Tensor, Tensor)",
    lambda a: (torch.empty_like(a), a.new_empty([*a.shape[:-1], _side(a)]), a.new_empty([*a.shape[:-2], _side(a)])),
)
_REFLECTED = define(
    "complex_reflected(Tensor vectors, Tensor taus, Tensor x, bool adjoint=False) -> Tensor",
    lambda vectors, taus, x, adjoint=False: torch.empty_like(x),
)
_EIGH = define(
    "complex_eigh(Tensor a) -> (Tensor, Tensor)", lambda a: (a.new_empty(a.shape[1:-1]), torch.empty_like(a))
)
_SVD = define(
    "complex_svd(Tensor a) -> (Tensor, Tensor, Tensor)",
    lambda a: (
        a.new_empty([*a.shape[1:-2], a.shape[-1]]),
        torch.empty_like(a),
        a.new_empty([*a.shape[:-2], a.shape[-1], a.shape[-1]]),
    ),
)


_LDL = define(
    "complex_ldl_factor(Tensor a, bool hermitian) -> (Tensor, Tensor, Tensor)",
    lambda a, hermitian: (
        torch.empty_like(a),
        a.new_empty(a.shape[1:-1], dtype=torch.int32),
        a.new_empty(a.shape[1:-2], dtype=torch.int32),
    ),
)
_LDL_SOLVED = define(
    "complex_ldl_solve(Tensor ld, Tensor pivots, Tensor b, bool hermitian) -> Tensor",
    lambda ld, pivots, b, hermitian: torch.empty_like(b),
)


def _ldl_computed(a: torch.Tensor, hermitian: bool) -> Any:
    ld, pivots, info = torch.linalg.ldl_factor_ex(_complex(a), hermitian=hermitian)
    return _real(ld), pivots, info


def _ldl_solve_computed(ld: torch.Tensor, pivots: torch.Tensor, b: torch.Tensor, hermitian: bool) -> Any:
    return _real(torch.linalg.ldl_solve(_complex(ld), pivots, _complex(b), hermitian=hermitian))


def _lu_computed(a: torch.Tensor) -> Any:
    lu, pivots = torch.linalg.lu_factor(_complex(a))
    return _real(lu), pivots


def _reflections_computed(a: torch.Tensor) -> Any:
    packed, taus = torch.geqrf(_complex(a))
    vectors = packed[..., : taus.shape[-1]].tril(-1)
    return _real(packed.triu()), _real(vectors + torch.eye(*vectors.shape[-2:])), _real(taus)


def _reflected_computed(vectors: torch.Tensor, taus: torch.Tensor, x: torch.Tensor, adjoint: bool = False) -> Any:
    return _real(torch.ormqr(_complex(vectors), _complex(taus), _complex(x), transpose=adjoint))


def _eigh_computed(a: torch.Tensor) -> Any:
    values, vectors = torch.linalg.eigh(_complex(a))
    return values, _real(vectors)


def _svd_computed(a: torch.Tensor) -> Any:
    matrices = _complex(a)
    _, values, vh = torch.linalg.svd(matrices)
    missing = torch.zeros([*values.shape[:-1], vh.shape[-1] - values.shape[-1]], dtype=values.dtype)
    return torch.cat([values, missing], -1), _real(matrices @ vh.mH), _real(vh.mH)


run_by(_LU, _lu_computed)
run_by(_LDL, _ldl_computed)
run_by(_LDL_SOLVED, _ldl_solve_computed)
run_by(_REFLECTIONS, _reflections_computed)
run_by(_REFLECTED, _reflected_computed)
run_by(_EIGH, _eigh_computed)
run_by(_SVD, _svd_computed)


# --- LU ---------------------------------------------------------------------------------------------------------------


@complex_of("aten::linalg_lu_factor_ex")
def lu_factor_ex(A: Parts, *, pivot: bool = True, check_errors: bool = False) -> Any:
    if not pivot:
        return NotImplemented
    lu, pivots = _LU(_both(A))
    parts = _apart(lu)
    heads = [part.diagonal(0, -2, -1) for part in parts]
    is_zero = (heads[0] == 0) & (heads[1] == 0)
    size = pivots.shape[-1]
    numbers = torch.arange(1, size + 1, device=pivots.device)
    # 0 if there is none.
    first = torch.where(is_zero, size + 1 - numbers, 0).amax(-1) if not isinstance(size, int) or size else None
    info = torch.where(first > 0, size + 1 - first, 0) if first is not None else pivots.sum(-1)
    return parts, pivots, info.to(torch.int32)


def _unpacked(lu: Parts, pivots: torch.Tensor, unpack_pivots: bool = True) -> tuple[torch.Tensor, Parts, Parts]:
    """P, L and U; P is real, and has an empty imaginary part"""
    permutation, lower, upper = _aten.lu_unpack.default(lu.real, pivots, True, unpack_pivots)
    _, other_lower, other_upper = _aten.lu_unpack.default(lu.imag, pivots, True, False)
    return permutation, Parts(lower, other_lower.tril(-1)), Parts(upper, other_upper)


@complex_of("aten::lu_unpack")
def lu_unpack(LU_data: Parts, LU_pivots: torch.Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    permutation, lower, upper = _unpacked(LU_data, LU_pivots, unpack_pivots)
    empty = parts_of(LU_data.real.new_empty([0]))
    return parts_of(permutation), *((lower, upper) if unpack_data else (empty, empty))


@complex_of("aten::linalg_lu")
def linalg_lu(A: Parts, *, pivot: bool = True) -> Any:
    if not pivot:
        return NotImplemented
    lu, pivots = _LU(_both(A))
    permutation, lower, upper = _unpacked(_apart(lu), pivots)
    return parts_of(permutation), lower, upper


@complex_of("aten::linalg_lu_solve")
def linalg_lu_solve(
    LU: Operand, pivots: torch.Tensor, B: Operand, *, left: bool = True, adjoint: bool = False
) -> Parts:
    b = parts_of(B)
    if not left:
        # X @ A = B is A.H @ X.H = B.H
        return _adjoint(linalg_lu_solve(LU, pivots, _adjoint(b), adjoint=not adjoint))
    permutation, lower, upper = _unpacked(parts_of(LU), pivots)
    if not adjoint:
        half = _solved(lower, parts_of(matmul(permutation.mT, b)), upper=False, unit=True)
        return _solved(upper, half, upper=True)
    half = _solved(_adjoint(upper), b, upper=False)
    return parts_of(matmul(permutation, _solved(_adjoint(lower), half, upper=True, unit=True)))


@complex_of("aten::linalg_ldl_factor_ex")
def linalg_ldl_factor_ex(self: Parts, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    a = _hermitian(self, upper=False) if hermitian else self
    ld, pivots, info = _LDL(_both(a), hermitian)
    return _apart(ld), pivots, info


@complex_of("aten::linalg_ldl_solve")
def linalg_ldl_solve(LD: Operand, pivots: torch.Tensor, B: Operand, *, hermitian: bool = False) -> Parts:
    return _apart(_LDL_SOLVED(_both(LD), pivots, _both(B), hermitian))


# --- QR ---------------------------------------------------------------------------------------------------------------


def _orthogonal(vectors: torch.Tensor, taus: torch.Tensor, columns: Size) -> Parts:
    """The first columns of Q."""
    rows = vectors.shape[-2]
    unit = torch.eye(rows, columns, dtype=vectors.dtype, device=vectors.device)
    start = torch.stack([unit, torch.zeros_like(unit)], 0)
    shape = [2, *[1] * (vectors.dim() - 3), rows, columns]
    return _apart(_REFLECTED(vectors, taus, start.reshape(shape).expand([*vectors.shape[:-1], columns])))


@complex_of("aten::linalg_qr")
def linalg_qr(A: Parts, mode: str = "reduced") -> Any:
    r, vectors, taus = _REFLECTIONS(_both(A))
    if mode == "complete":
        return _orthogonal(vectors, taus, r.shape[-2]), _apart(r)
    side = taus.shape[-1]
    top = _apart(r[..., :side, :])
    return parts_of(A.real.new_empty([0])) if mode == "r" else _orthogonal(vectors, taus, side), top


@complex_of("aten::geqrf")
def geqrf(self: Parts) -> Any:
    r, vectors, taus = _REFLECTIONS(_both(self))
    below = vectors.tril(-1)
    missing = r.shape[-1] - vectors.shape[-1]
    return _apart(r + _aten.constant_pad_nd.default(below, [0, missing])), _apart(taus)


def _vectors(packed: Parts, count: Size) -> torch.Tensor:
    """The vectors of reflections, of which the parts below the diagonal are given."""
    below = [part[..., :count].tril(-1) for part in packed]
    unit = torch.eye(below[0].shape[-2], count, dtype=below[0].dtype, device=below[0].device)
    return torch.stack([below[0] + unit, below[1]], 0)


@complex_of("aten::linalg_householder_product")
def householder_product(input: Operand, tau: Operand) -> Parts:
    taus = _both(tau)
    packed = parts_of(input)
    return _orthogonal(_vectors(packed, taus.shape[-1]), taus, packed.real.shape[-1])


@complex_of("aten::ormqr")
def ormqr(self: Operand, input2: Operand, input3: Operand, left: bool = True, transpose: bool = False) -> Parts:
    """The product of Q, or its adjoint, and a matrix; if not `left`, of the matrix and Q, which is (Q.H @ C.H).H"""
    taus, other = _both(input2), parts_of(input3)
    vectors = _vectors(parts_of(self), taus.shape[-1])
    if left:
        return _apart(_REFLECTED(vectors, taus, _both(other), transpose))
    return _adjoint(_apart(_REFLECTED(vectors, taus, _both(_adjoint(other)), not transpose)))


# --- eigenvectors and singular vectors --------------------------------------------------------------------------------


@complex_of("aten::_linalg_eigh")
def linalg_eigh(A: Parts, UPLO: str = "L", compute_v: bool = True) -> Any:
    values, vectors = _EIGH(_both(_hermitian(A, UPLO.upper() == "U")))
    return values, _apart(vectors)


@complex_of("aten::_linalg_svd")
def linalg_svd(A: Parts, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None) -> Any:
    """A wide matrix is replaced by its adjoint, which exchanges U and V"""
    rows, columns = A.real.shape[-2:]
    if isinstance(rows, int) and isinstance(columns, int) and rows < columns:
        v, values, uh = linalg_svd(_adjoint(A), full_matrices, compute_uv)
        return _adjoint(uh), values, _adjoint(v)
    side = _side(A.real)
    values, products, right = _SVD(_both(A))
    r, vectors, taus = _REFLECTIONS(products[..., :side])
    # R is diagonal, and its elements are the singular values or their opposites.
    heads = r.select(0, 0).diagonal(0, -2, -1)
    signs = torch.where(heads < 0, -1, 1).to(heads.dtype)
    count: Size = rows if full_matrices else side
    signs = _aten.constant_pad_nd.default(signs, [0, count - side], 1.0).unsqueeze(-2)
    left = Parts(*(part * signs for part in _orthogonal(vectors, taus, count)))
    v = _apart(right if full_matrices else right[..., :side])
    return left, values[..., :side], _adjoint(v)
