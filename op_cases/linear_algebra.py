"""Products of matrices and vectors, layers made of them, and decompositions of matrices.

Where a result is unique only up to signs or a basis, the program returns what is unique: the products of the factors,
and products that show that vectors are orthonormal.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from onnx_parity.harness.case import BATCH, FLOATS, WIDE_FLOATS, Keywords, floats, given, numbers, op
from onnx_parity.op_cases.gradients import ZERO_OF_A_PRODUCT

#: Why some cases do not run with a NaN; the slow ones are left to the default tier.
_NAN = "the order in which LAPACK computes decides what NaN reaches"
_LATER: Keywords = {"tier": "default", "without_nan": _NAN}

_DTYPES = [*FLOATS, torch.int64, torch.int32, torch.int8, torch.uint8]
_SCALES = [{}, {"beta": 0.5}, {"alpha": -2.0}, {"beta": 0, "alpha": 3.0}]
_INT_SCALES = [{}, {"beta": 2}, {"alpha": -2}, {"beta": 0, "alpha": 3}]

mm = op(torch.mm, numbers(2, 3), mat2=numbers(3, 4), dtypes=_DTYPES, dynamic={"x": {0: "rows"}}, **ZERO_OF_A_PRODUCT)
mm_empty = op(torch.mm, floats(2, 0), mat2=floats(0, 4))
bmm = op(torch.bmm, numbers(2, 3, 4), mat2=numbers(2, 4, 5), dtypes=_DTYPES, dynamic={"x": {1: "rows"}})
mv = op(torch.mv, numbers(3, 4), vec=numbers(4), dtypes=_DTYPES)
dot = op(torch.dot, numbers(4), tensor=numbers(4), dtypes=_DTYPES)
outer = op(torch.outer, numbers(3), vec2=numbers(4), dtypes=_DTYPES)
ger = op(torch.ger, floats(3), vec2=floats(4))
matmul = op(
    torch.matmul,
    rows=[
        {"input": floats(4), "other": floats(4)},
        {"input": floats(4), "other": floats(4, 3)},
        {"input": floats(3, 4), "other": floats(4)},
        {"input": floats(3, 4), "other": floats(4, 5)},
        {"input": floats(4), "other": floats(2, 4, 3)},
        {"input": floats(2, 3, 4), "other": floats(4)},
        {"input": floats(2, 3, 4), "other": floats(4, 5)},
        {"input": floats(3, 4), "other": floats(2, 4, 5)},
        {"input": floats(2, 1, 3, 4), "other": floats(5, 4, 2)},
        {"input": floats(0, 3), "other": floats(3, 2)},
    ],
)
matmul_dtypes = op(torch.matmul, numbers(2, 3, 4), other=numbers(4, 5), dtypes=_DTYPES, **ZERO_OF_A_PRODUCT)
matmul_operator = op(lambda x, y: x @ y.mT, floats(2, 3, 4), y=floats(5, 4), dynamic={"x": {0: "batch", 1: "rows"}})
#: onnxruntime's optimiser makes FusedMatMul of these, which is wrong if the transposed matrix is on the left.
matmul_of_transposed = op(
    lambda x, y: (
        x.mT @ y, (x.mT * 2) @ y, torch.cat([x.mT, x.mT]) @ y, x[0].T.mv(y), y @ x[0].T.mT, x.permute(2, 0, 1) @ y,
    ),
    floats(2, 3, 4),
    y=floats(3),
    dtypes=FLOATS,
)  # fmt: skip
matmul_without_rows = op(
    lambda x, y: x @ y, floats(2, 3, 4), y=floats(4), dynamic={"x": {1: "rows"}}, sizes={"rows": [0, 5]}
)
mv_without_rows = op(torch.mv, floats(3, 4), vec=floats(4), dynamic={"x": {0: "rows"}}, sizes={"rows": [0, 1, 5]})
addmm = op(
    torch.addmm,
    floats(2, 4),
    mat1=floats(2, 3),
    mat2=floats(3, 4),
    rows=_SCALES,
    dynamic={"mat1": {0: "rows"}, "x": {0: "rows"}},
)
addmm_broadcast = op(
    torch.addmm,
    rows=[{"input": floats(4)}, {"input": floats(2, 1)}, {"input": floats()}],
    mat1=floats(2, 3),
    mat2=floats(3, 4),
)
#: Only what is added is far from 0: where large products cancel, their rounding is all that is left.
addmm_dtypes = op(
    torch.addmm, numbers(2, 4), mat1=numbers(2, 3, far=False), mat2=numbers(3, 4, far=False), rows=_INT_SCALES,
    dtypes=_DTYPES, **ZERO_OF_A_PRODUCT,
)  # fmt: skip
addmm_nan_left_out = op(
    torch.addmm, floats(2, 4, special=(float("nan"),)), mat1=floats(2, 3), mat2=floats(3, 4), beta=0
)
addmm_ = op(lambda x, a, b: (x + 0).addmm_(a, b, beta=2), floats(2, 4), a=floats(2, 3), b=floats(3, 4))
addmv = op(torch.addmv, floats(2), mat=floats(2, 3), vec=floats(3), rows=_SCALES)
addr = op(torch.addr, floats(2, 3), vec1=floats(2), vec2=floats(3), rows=_SCALES)
bmm_of_other_axes = op(
    lambda a, b: torch.bmm(a.reshape(2, 4, 4), b.reshape(2, 4, 3)).reshape(2, 2, 6) + 1,
    floats(2, 2, 8),
    b=floats(2, 2, 6),
)
addbmm = op(torch.addbmm, floats(3, 5), batch1=floats(2, 3, 4), batch2=floats(2, 4, 5), rows=_SCALES)
baddbmm = op(torch.baddbmm, floats(2, 3, 5), batch1=floats(2, 3, 4), batch2=floats(2, 4, 5), rows=_SCALES)
addbmm_broadcast = op(
    torch.addbmm,
    rows=[{"input": floats(5)}, {"input": floats(1, 5)}, {"input": floats()}],
    batch1=floats(2, 3, 4),
    batch2=floats(2, 4, 5),
    beta=[0, 0.5],
    dynamic={"batch1": {0: "batch", 1: "rows"}, "batch2": {0: "batch"}},
)
addbmm_varying = op(
    torch.addbmm, floats(3, 5), batch1=floats(2, 3, 4), batch2=floats(2, 4, 5),
    dynamic={"x": {0: "rows", 1: "columns"}, "batch1": {0: "batch", 1: "rows"}, "batch2": {0: "batch", 2: "columns"}},
)  # fmt: skip
baddbmm_broadcast = op(
    torch.baddbmm, batch1=floats(2, 3, 4), batch2=floats(2, 4, 5), beta=[0, 0.5],
    rows=[{"input": floats(*sizes)} for sizes in ((), (5,), (3, 1), (1, 3, 5), (2, 1, 1), (1, 1, 5))],
)  # fmt: skip
baddbmm_broadcast_varying = op(
    torch.baddbmm,
    rows=[{"input": floats(*sizes)} for sizes in ((), (5,), (1, 1), (1, 1, 5))],
    batch1=floats(2, 3, 4),
    batch2=floats(2, 4, 5),
    alpha=[1, -2.0],
    dynamic={"batch1": {0: "batch", 1: "rows"}, "batch2": {0: "batch"}},
    sizes={"rows": (1, 6)},
)
baddbmm_dtypes = op(
    torch.baddbmm, numbers(2, 3, 5), batch1=numbers(2, 3, 4, far=False), batch2=numbers(2, 4, 5, far=False),
    rows=_INT_SCALES, dtypes=_DTYPES,
)  # fmt: skip
#: In each dtype with both factors.
products_scaled = op(
    lambda x, a, b: (
        torch.addmm(x, a, b, beta=3, alpha=-2), torch.addmv(x[:, 0], a, b[:, 0], beta=3, alpha=-2),
        torch.addr(x, a[:, 0], b[0], beta=3, alpha=-2), torch.addbmm(x, a[None], b[None], beta=3, alpha=-2),
        torch.baddbmm(x[None], a[None], b[None], beta=3, alpha=-2),
    ), numbers(2, 4), numbers(2, 3, far=False), numbers(3, 4, far=False), dtypes=_DTYPES,
)  # fmt: skip
linear = op(
    F.linear,
    rows=[
        {"input": floats(4)},
        {"input": floats(2, 4)},
        {"input": floats(2, 3, 4)},
        {"input": floats(2, 1, 3, 4)},
        {"input": floats(0, 4)},
    ],
    weight=floats(5, 4),
    bias=[None, floats(5)],
)
linear_vector_weight = op(F.linear, floats(2, 3, 4), weight=floats(4), bias=[None, floats()])
linear_dtypes = op(F.linear, numbers(2, 4, far=False), weight=numbers(5, 4, far=False), bias=numbers(5), dtypes=_DTYPES)
linear_module = op(
    nn.Linear,
    floats(2, 3, 4),
    in_features=4,
    out_features=5,
    bias=[True, False],
    dynamic={"x": {0: "batch", 1: "steps"}},
)
bilinear = op(
    nn.Bilinear, floats(3, 4), floats(3, 5), in1_features=4, in2_features=5, out_features=2, bias=[True, False]
)
chain_matmul = op(lambda a, b, c: torch.linalg.multi_dot([a, b, c]), floats(2, 3), floats(3, 4), floats(4, 5))
einsum = op(
    lambda equation, **operands: torch.einsum(equation, *operands.values()),
    rows=[
        {"equation": "ij,jk->ik", "a": floats(2, 3), "b": floats(3, 4)},
        {"equation": "ii->i", "a": floats(3, 3)},
        {"equation": "ii", "a": floats(3, 3)},
        {"equation": "ij->ji", "a": floats(2, 3)},
        {"equation": "ij->", "a": floats(2, 3)},
        {"equation": "i,j->ij", "a": floats(2), "b": floats(3)},
        {"equation": "bij,bjk->bik", "a": floats(2, 3, 4), "b": floats(2, 4, 5)},
        {"equation": "...ij,...j->...i", "a": floats(2, 5, 3, 4), "b": floats(5, 4)},
        {"equation": "bhid,bhjd->bhij", "a": floats(2, 3, 4, 5), "b": floats(2, 3, 6, 5)},
        {"equation": "b i j, b j k -> b k i", "a": floats(2, 3, 4), "b": floats(2, 4, 5)},
        {"equation": "bhwc,hkc->bhwk", "a": floats(2, 3, 4, 5), "b": floats(3, 6, 5)},
        {"equation": "bhwc,wkc->bhwk", "a": floats(2, 3, 4, 5), "b": floats(4, 6, 5)},
        {"equation": "cd,bhwc->dbhw", "a": floats(5, 6), "b": floats(2, 3, 4, 5)},
        {"equation": "bij,bj->bi", "a": floats(2, 3, 4), "b": floats(2, 4)},
        {"equation": "bj,bij->bi", "a": floats(2, 4), "b": floats(2, 3, 4)},
        {"equation": "bij,bik->kbj", "a": floats(2, 3, 4), "b": floats(1, 3, 5)},
        {"equation": "bi,bi->b", "a": floats(2, 3), "b": floats(2, 3)},
        {"equation": "ij,kj", "a": floats(2, 3), "b": floats(4, 3)},
        {"equation": "ij,ji", "a": floats(2, 3), "b": floats(3, 2)},
        {"equation": "abi,cdi->abcd", "a": floats(2, 3, 4), "b": floats(2, 5, 4)},
        {"equation": "bij,bjk->bik", "a": floats(2, 3, 4), "b": floats(2, 1, 5)},
        {"equation": "bn,anm,bm->ba", "a": floats(2, 3), "b": floats(5, 3, 4), "c": floats(2, 4)},
    ],
)
det = op(
    torch.det,
    rows=[{"input": floats(*sizes)} for sizes in ((3, 3), (2, 4, 4), (2, 3, 6, 6), (1, 1), (2, 0, 0), (0, 3, 3))],
    without_nan=_NAN,
)
linalg_det = op(torch.linalg.det, floats(3, 5, 5), dynamic=BATCH)

# --- decompositions, and what is computed from them: solutions, inverses, determinants, norms -------------------------

_SQUARES = [{"input": floats(*sizes)} for sizes in ((1, 1), (4, 4), (2, 3, 3), (2, 1, 5, 5))]
_SIDES = [{"x": floats(*sizes)} for sizes in ((3, 3), (5, 3), (2, 3, 5), (2, 1, 4, 2))]
#: Matrices of rank 1, of the eigenvalues 3, 3 and 0, of zeros, and of a condition number of 524, that of Hilbert.
_HARD = given(
    [
        [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]],
        [[2.0, -1.0, -1.0], [-1.0, 2.0, -1.0], [-1.0, -1.0, 2.0]],
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
        [[1.0, 1 / 2, 1 / 3], [1 / 2, 1 / 3, 1 / 4], [1 / 3, 1 / 4, 1 / 5]],
    ]
)
#: The Hilbert matrix of order 5, whose condition number is 476,607.
_NEARLY_SINGULAR = given([[1.0 / (row + column + 1) for column in range(5)] for row in range(5)])
#: Squares of their elements overflow and underflow in float32.
_MAGNITUDES = given([[[3e25, 1e25], [-2e25, 4e25]], [[3e-25, 1e-25], [-2e-25, 4e-25]]])
#: Three columns that are small beside the first, and far from orthogonal.
_GRADED = given([[1.0, 0.0, 0.0, 0.0], [0.0, 1e-3, 9e-4, 3e-4], [0.0, 0.0, 4e-4, 5e-4], [0.0, 2e-4, 0.0, 7e-4]])
_DYNAMIC = {"x": {0: "batch", 1: "size", 2: "size"}}


def _positive(x: torch.Tensor) -> torch.Tensor:
    """A positive definite matrix."""
    return x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def _apart(x: torch.Tensor) -> torch.Tensor:
    """A matrix far from singular ones."""
    return x + 4 * torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)


# --- LU ---------------------------------------------------------------------------------------------------------------

lu = op(torch.linalg.lu, rows=[{"A": floats(*sizes)} for sizes in ((3, 3), (4, 2), (2, 3, 5), (0, 3, 3))], **_LATER)
lu_dtypes = op(torch.linalg.lu, floats(2, 3, 3), dtypes=WIDE_FLOATS, dynamic=BATCH, without_nan=_NAN)
lu_of_ties = op(torch.linalg.lu, given([[1.0, -1.0, 2.0], [-1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]), without_nan=_NAN)
lu_factor = op(
    torch.linalg.lu_factor_ex,
    rows=[{"A": floats(2, 3, 5)}, {"A": _HARD}, {"A": floats(2, 4, 4)}],
    dtypes=WIDE_FLOATS,
    without_nan=_NAN,
)
lu_solve = op(
    lambda x, b, **how: torch.linalg.lu_solve(*torch.linalg.lu_factor(_apart(x)), b, **how),
    floats(2, 3, 3),
    rows=[{"b": floats(2, 3, 2), "adjoint": True}, {"b": floats(2, 2, 3), "left": False}, {"b": floats(3, 1)}],
    without_nan=_NAN,
)
inv = op(lambda input: torch.linalg.inv(_apart(input)), rows=_SQUARES, dtypes=WIDE_FLOATS, **_LATER)
inv_nearly_singular = op(torch.linalg.inv, _NEARLY_SINGULAR, dtypes=WIDE_FLOATS)
inv_varying = op(lambda x: torch.linalg.inv(_apart(x)), floats(2, 3, 3), dynamic=_DYNAMIC, without_nan=_NAN)
inv_ex = op(torch.linalg.inv_ex, rows=[{"A": floats(2, 3, 3)}, {"A": floats(2, 0, 0)}], without_nan=_NAN)
solve = op(
    lambda x, b, **how: torch.linalg.solve(_apart(x), b, **how),
    rows=[
        {"x": floats(3, 3), "b": floats(3)},
        {"x": floats(2, 3, 3), "b": floats(3, 4)},
        {"x": floats(2, 3, 3), "b": floats(2, 3)},
        {"x": floats(3, 3), "b": floats(5, 2, 3), "left": False},
    ],
    dtypes=WIDE_FLOATS,
    **_LATER,
)
determinants = op(
    lambda x: (torch.linalg.det(x), *torch.linalg.slogdet(x), torch.logdet(_positive(x))),
    rows=[{"x": floats(*sizes)} for sizes in ((3, 3), (2, 5, 5), (1, 1), (2, 0, 0))],
    dtypes=WIDE_FLOATS,
    **_LATER,
)
_SYMMETRIC = [{"x": floats(*sizes)} for sizes in ((1, 1), (4, 4), (2, 5, 5))]
ldl_factor = op(lambda x: torch.linalg.ldl_factor_ex(x + x.mT), rows=_SYMMETRIC, dtypes=WIDE_FLOATS, **_LATER)
#: Zeros on the diagonal, so that blocks of 2 by 2 are needed; and a singular matrix.
ldl_of_blocks = op(
    torch.linalg.ldl_factor_ex,
    given([[[0.0, 3.0, 1.0], [3.0, 0.0, 2.0], [1.0, 2.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 2.0, 2.0], [0.0, 2.0, 2.0]]]),
    **_LATER,
)
#: The element on the diagonal of the row that is chosen is its largest, which must not count as one of the others.
ldl_of_large_diagonals = op(torch.linalg.ldl_factor_ex, given([[0.5, 1.0], [1.0, 10.0]]), **_LATER)
ldl_solve = op(
    lambda x, b: torch.linalg.ldl_solve(*torch.linalg.ldl_factor(x + x.mT), b),
    floats(2, 5, 5),
    floats(2, 5, 2),
    dtypes=WIDE_FLOATS,
    tier="default",
    without_nan=_NAN,
)
#: Whether it is singular, down to no rows.
info_of_any_size = op(
    lambda x: torch.linalg.inv_ex(x @ x.mT).info, floats(3, 3), dynamic={"x": {0: "side", 1: "side"}},
    sizes={"side": [0, 1, 5]}, without_nan=_NAN,
)  # fmt: skip
slogdet_singular = op(torch.linalg.slogdet, given([[1.0, 2.0], [2.0, 4.0]]), without_nan=_NAN)

# --- triangles --------------------------------------------------------------------------------------------------------

cholesky = op(
    lambda input, **how: torch.linalg.cholesky(_positive(input), **how),
    rows=_SQUARES,
    upper=[False, True],
    tier="default",
)
cholesky_dtypes = op(lambda x: torch.linalg.cholesky(_positive(x)), floats(2, 3, 3), dtypes=WIDE_FLOATS)
cholesky_varying = op(lambda x: torch.linalg.cholesky(_positive(x)), floats(2, 3, 3), dynamic=_DYNAMIC)
cholesky_info = op(
    lambda x: torch.linalg.cholesky_ex(x).info,
    given([[[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0.0], [0.0, 1.0]], [[2.0, 1.0], [1.0, 2.0]]]),
)
cholesky_solve = op(
    lambda x, b, upper: torch.cholesky_solve(b, torch.linalg.cholesky(_positive(x), upper=upper), upper=upper),
    floats(2, 3, 3),
    floats(2, 3, 2),
    upper=[False, True],
)
cholesky_inverse = op(lambda x: torch.cholesky_inverse(torch.linalg.cholesky(_positive(x))), floats(2, 3, 3))
solve_triangular = op(
    lambda x, b, **how: torch.linalg.solve_triangular(_apart(x), b, **how),
    floats(2, 3, 3),
    rows=[{"b": floats(2, 3, 4)}, {"b": floats(3, 1)}, {"b": floats(2, 4, 3), "left": False}],
    upper=[False, True],
    unitriangular=[False, True],
)
#: Of halves, the right sides have another dtype than the matrices.
solve_triangular_of_any_size = op(
    lambda x: tuple(
        torch.linalg.solve_triangular(x + 3 * torch.eye(x.shape[-1]), x, upper=True, left=on) for on in (True, False)
    ), floats(2, 3, 3), dtypes=FLOATS, dynamic=_DYNAMIC, sizes={"batch": (2, 3), "size": (0, 4)},
)  # fmt: skip

# --- QR ---------------------------------------------------------------------------------------------------------------

qr = op(torch.linalg.qr, rows=[{"A": each["x"]} for each in _SIDES], mode=["reduced", "complete", "r"], **_LATER)
qr_of_any_magnitude = op(torch.linalg.qr, _MAGNITUDES, dtypes=WIDE_FLOATS, without_nan=_NAN)
qr_varying = op(torch.linalg.qr, floats(2, 5, 3), dynamic={"x": {0: "batch"}}, without_nan=_NAN)
#: The matrices of a batch are scaled each for itself.
qr_of_unlike_magnitudes = op(
    lambda x, y: torch.linalg.qr(x * torch.exp(y)),
    floats(2, 5, 3),
    floats(2, 1, 1, low=-28.0, high=28.0),
    dynamic={"x0": {0: "batch"}, "x1": {0: "batch"}},
    dtypes=WIDE_FLOATS,
    without_nan=_NAN,
)
packed_varying = op(
    torch.geqrf,
    floats(2, 5, 3),
    dynamic={"x": {0: "batch", 1: "rows", 2: "columns"}},
    sizes={"batch": (2, 3), "rows": (2, 4), "columns": (5, 3)},
    without_nan=_NAN,
)
householder_product = op(lambda x: torch.linalg.householder_product(*torch.geqrf(x)), floats(2, 5, 3), without_nan=_NAN)
ormqr = op(
    lambda x, y, **how: torch.ormqr(*torch.geqrf(x), y, **how),
    floats(4, 3),
    rows=[{"y": floats(4, 2)}, {"y": floats(4, 2), "transpose": True}, {"y": floats(2, 4), "left": False}],
    without_nan=_NAN,
)

# --- eigenvalues and singular values ----------------------------------------------------------------------------------


def _eigen(x: torch.Tensor, UPLO: str = "L") -> tuple[torch.Tensor, ...]:
    values, vectors = torch.linalg.eigh(x, UPLO=UPLO)
    return values, (vectors * values.unsqueeze(-2)) @ vectors.mT, vectors.mT @ vectors


def _singular(x: torch.Tensor, full_matrices: bool = False) -> tuple[torch.Tensor, ...]:
    u, values, vt = torch.linalg.svd(x, full_matrices=full_matrices)
    side = values.shape[-1]
    return values, (u[..., :side] * values.unsqueeze(-2)) @ vt[..., :side, :], u.mT @ u, vt @ vt.mT


_ORTHOGONAL: dict[str, Any] = {
    "tolerance": {torch.float32: 2e-5, torch.float64: 4e-14},
    "because": "elements of products of orthonormal vectors that are 0 are sums of rounding errors",
}
eigh = op(
    _eigen,
    rows=[{"x": each["input"]} for each in _SQUARES],
    UPLO=["L", "U"],
    dtypes=WIDE_FLOATS,
    **_ORTHOGONAL,
    tier="default",
)
eigh_hard = op(_eigen, _HARD, dtypes=WIDE_FLOATS, **_ORTHOGONAL, without_nan=_NAN)


#: A matrix with two real eigenvalues and a pair of complex ones, which are far apart.
_SPREAD = [[4.0, 1.0, 0.0, 0.5], [-1.0, 1.0, 2.0, 0.0], [0.0, -2.0, 1.0, 0.5], [0.5, 0.0, 0.25, -3.0]]


def _of_any(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    values, vectors = torch.linalg.eig(x)
    return values, vectors.abs()


def _in_any_order(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Rounding may decide which of two eigenvalues is found first."""
    values, vectors = torch.linalg.eig(x)
    residual = x.to(values.dtype) @ vectors - vectors * values.unsqueeze(-2)
    return values.sum(-1), values.prod(-1), torch.view_as_real(residual), vectors.abs().square().sum(-2)


eig = op(_of_any, rows=[{"x": floats(1, 1)}, {"x": given(_SPREAD)}, {"x": floats(0, 0)}], tier="default")
eig_in_any_order = op(_in_any_order, floats(2, 4, 4), **_ORTHOGONAL, tier="default")
#: The axes in a circle, for which the usual shifts do not converge, and two pairs that are equal.
eigvals_hard = op(
    torch.linalg.eigvals,
    rows=[
        {"input": given([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])},
        {"input": given([[1.0, 2.0, 0.0, 0.0], [-2.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 2.0], [0.0, 0.0, -2.0, 1.0]])},
    ],
    **_LATER,
)
eigvals_varying = op(torch.linalg.eigvals, floats(2, 4, 4), dynamic={"x": {0: "batch"}}, tier="full", without_nan=_NAN)
eigvals_of_any_size = op(
    lambda x: torch.linalg.eigvals(x).abs().sum(-1), floats(2, 3, 3), dynamic={"x": {1: "n", 2: "n"}}, **_LATER
)
eigvalsh = op(torch.linalg.eigvalsh, floats(2, 4, 4), dtypes=WIDE_FLOATS, dynamic=_DYNAMIC, without_nan=_NAN)


def _paired(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Of a matrix whose eigenvalues are equal in pairs, and whose diagonal has equal numbers until the end."""
    real, imag = x + x.mT, y - y.mT
    twice = torch.cat([torch.cat([real, -imag], -1), torch.cat([imag, real], -1)], -2)
    values: torch.Tensor = torch.linalg.eigvalsh(twice)
    return values


eigvalsh_paired = op(_paired, floats(2, 3, 3), floats(2, 3, 3), dtypes=WIDE_FLOATS, without_nan=_NAN)
svd = op(_singular, rows=_SIDES, full_matrices=[False, True], dtypes=WIDE_FLOATS, **_ORTHOGONAL, tier="default")
#: Which side is shorter is not known: in the example there are more columns than rows.
svd_of_any_size = op(
    lambda x: (*_singular(x), torch.linalg.pinv(x)),
    floats(2, 3, 5),
    dynamic={"x": {0: "batch", 1: "rows", 2: "columns"}},
    sizes={"rows": (5, 2), "columns": (3, 6)},
    **_ORTHOGONAL,
    tier="default",
)
svd_hard = op(_singular, _HARD, full_matrices=[False, True], dtypes=WIDE_FLOATS, **_ORTHOGONAL)
svdvals = op(torch.linalg.svdvals, rows=[{"A": each["x"]} for each in _SIDES], dtypes=WIDE_FLOATS)
svdvals_graded = op(torch.linalg.svdvals, _GRADED, dtypes=WIDE_FLOATS)
#: Each matrix is a result of its own: beside the greatest values of one result, the smallest would not count.
svdvals_of_any_magnitude = op(lambda x: torch.linalg.svdvals(x).unbind(), _MAGNITUDES)
eigvalsh_of_any_magnitude = op(lambda x: torch.linalg.eigvalsh(x).unbind(), _MAGNITUDES, without_nan=_NAN)
pinv = op(torch.linalg.pinv, rows=[{"input": each["x"]} for each in _SIDES], dtypes=WIDE_FLOATS)
pinv_singular = op(torch.linalg.pinv, _HARD, rtol=[None, 1e-2])
pinv_hermitian = op(lambda x: torch.linalg.pinv(x + x.mT, hermitian=True), floats(2, 4, 4), without_nan=_NAN)
#: What torch computes with gelsy, the default, may differ from run to run: tests/exporter/operators/test_matrices.py.
lstsq = op(
    lambda x, b, driver: torch.linalg.lstsq(x, b, driver=driver),
    rows=[
        {"x": floats(5, 3), "b": floats(5, 2), "driver": "gels"},
        {"x": floats(3, 5), "b": floats(3, 2), "driver": "gelsd"},
        {"x": floats(2, 4, 4), "b": floats(2, 4), "driver": "gels"},
    ],
)
lstsq_of_a_batch = op(
    lambda x, b, driver: torch.linalg.lstsq(x, b, driver=driver)[:2],
    floats(2, 5, 3),
    floats(2, 5, 2),
    driver=["gels", "gelsd"],
)
norms = op(
    torch.linalg.matrix_norm,
    rows=[{"input": floats(4, 3)}, {"input": floats(2, 3, 4)}],
    ord=[2, -2, "nuc"],
    dtypes=WIDE_FLOATS,
)
condition = op(lambda x, p: torch.linalg.cond(_apart(x), p), floats(2, 3, 3), p=[None, 2, -2, 1, "fro"])
matrix_rank = op(
    torch.linalg.matrix_rank, rows=[{"input": _HARD}, {"input": floats(2, 4, 3)}, {"input": _NEARLY_SINGULAR}]
)

# --- functions of matrices --------------------------------------------------------------------------------------------

matrix_power = op(lambda x, n: torch.linalg.matrix_power(_apart(x), n), floats(2, 3, 3), n=[0, 1, 3, -2])
matrix_exp = op(torch.linalg.matrix_exp, rows=[{"input": each["input"]} for each in _SQUARES], dtypes=WIDE_FLOATS)
matrix_exp_far = op(lambda x: torch.linalg.matrix_exp(x * x.new_tensor([[[1e-3]], [[1.0]], [[9.0]]])), floats(3, 4, 4))

bilinear_of_any_batch = op(
    torch.nn.Bilinear(3, 4, 2), floats(2, 3), floats(2, 4), dynamic={"x0": {0: "batch"}, "x1": {0: "batch"}}
)
#: NaN on either side, among more than 30 elements, in each dtype.
products_of_nan = op(
    lambda x, y: (x @ y, y.mT @ x.mT, torch.addmm(x[:, :6], x, y), torch.bmm(x[None], y[None]), x @ y[:, 0]),
    floats(5, 7, special=(float("nan"), float("inf"))), floats(7, 6, special=(float("nan"),)),
    dtypes=FLOATS, dynamic={"x0": {0: "rows"}},
)  # fmt: skip
attributes_of_products = op(
    lambda x, y: (
        torch.cross(x, y, dim=0), torch.linalg.cross(x, y, dim=-2), torch.linalg.vecdot(x, y, dim=0),
        torch.renorm(x, 1.0, -2, 1.5), torch.subtract(x, y, alpha=2.5),
    ), floats(3, 4), floats(3, 4),
)  # fmt: skip
attributes_of_solutions = op(
    lambda x, y: (
        torch.linalg.solve_ex(x, y, left=False)[0], torch.linalg.tensorsolve(x.reshape(3, 3), y[0], dims=(0,)),
        torch.triangular_solve(y, x.mT, unitriangular=True)[0],
    ), given([[3.0, 1.0, 0.5], [-1.0, 4.0, 0.25], [0.5, 1.0, 5.0]]), floats(3, 3), **_LATER,
)  # fmt: skip
#: Singular values above and below what counts as zero.
ranks_by_tolerance = op(
    lambda x: (
        torch.linalg.matrix_rank(x, atol=0.5), torch.linalg.pinv(x, atol=0.5), torch.pinverse(x, rcond=0.4),
    ), given([[3.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.1]]), **_LATER,
)  # fmt: skip
