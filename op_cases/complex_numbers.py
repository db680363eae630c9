"""Complex tensors, in the program and as its inputs, outputs and weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops import scan

from onnx_parity.harness.case import Keywords, complexes, floats, given, ints, op

DTYPES = [torch.float32, torch.float64]
BATCH_OF_BOTH = {"x0": {0: "batch"}, "x1": {0: "batch"}}

# --- rotary embeddings as they are written with complex numbers -------------------------------------------------------


def rotated(q: torch.Tensor, k: torch.Tensor, freqs_cis: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The embedding of LLaMA: pairs of features are complex numbers, and are turned by an angle for each position."""
    turned = []
    for x in (q, k):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        frequencies = freqs_cis.view(1, pairs.shape[1], 1, pairs.shape[-1])
        turned.append(torch.view_as_real(pairs * frequencies).flatten(3).type_as(x))
    return turned[0], turned[1]


class Rotary(nn.Module):
    freqs_cis: torch.Tensor

    def __init__(self, features: int, positions: int) -> None:
        super().__init__()
        speeds = 1.0 / (10000.0 ** (torch.arange(0, features, 2).float() / features))
        angles = torch.outer(torch.arange(positions).float(), speeds)
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angles), angles))

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return rotated(q, k, self.freqs_cis[: q.shape[1]])


rotary = op(
    Rotary(8, 16), floats(2, 5, 3, 8), floats(2, 5, 3, 8),
    dynamic={"x0": {0: "batch", 1: "length"}, "x1": {0: "batch", 1: "length"}},
)  # fmt: skip
rotary_of_given_frequencies = op(rotated, floats(2, 5, 3, 8), floats(2, 5, 1, 8), complexes(5, 4))

# --- arithmetic -------------------------------------------------------------------------------------------------------


def arithmetic(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    number = [x + 2, 1j - y, x * 2.5, x * (1 - 2j), x / (2 + 1j), 3 / y]
    return [x + y, x - y, x * y, x / y, -x, torch.add(x, y, alpha=2), torch.rsub(x, y, alpha=1j), *number]


def with_real(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    fused = [torch.addcmul(x, x, y, value=2), torch.addcdiv(x, x, x + 3, value=1j), torch.lerp(x, x * 2, 0.3)]
    return [x + y, x - y, y - x, x * y, y / x, x / y, y * 1j, y + x[0], y.to(x.dtype) * x, *fused]


def compared(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    same = torch.where(x.real > 0, x, y)
    return [x == same, x != same, x == 1j, x.any(), (x * 0).all(), x.isnan(), x.isfinite(), torch.isclose(x, same)]


arithmetic_of_two = op(arithmetic, complexes(3, 4), complexes(4), dtypes=DTYPES, dynamic={"x0": {0: "batch"}})
arithmetic_with_real = op(
    with_real, complexes(3, 4), floats(3, 4), dtypes=DTYPES, signed_zeros=False,
    because="torch multiplies a real tensor by 0, the real part of 1j, which gives zeros of both signs",
    without_nan="NaN in a real tensor reaches the other part by 1j",
)  # fmt: skip
comparisons = op(compared, complexes(3, 4), complexes(3, 4), dynamic=BATCH_OF_BOTH)
of_one_element = op(arithmetic, complexes(1), complexes())
of_none = op(lambda x, y: (x + y, x.sum(), torch.cat([x, y])), complexes(0, 4), complexes(0, 4))

# --- parts and conversions --------------------------------------------------------------------------------------------


def parts(x: torch.Tensor) -> list[torch.Tensor]:
    return [x.real, x.imag, x.abs(), x.angle(), x.conj(), x.conj().T.contiguous(), torch.view_as_real(x), x.sgn()]


def made(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    pairs = torch.view_as_complex(torch.stack([a, b], -1))
    new = [torch.zeros(2, dtype=pairs.dtype), torch.full_like(pairs, 1j), torch.ones_like(pairs), pairs.new_zeros(3)]
    return [torch.complex(a, b), torch.polar(a, b), pairs, a.to(pairs.dtype), pairs.to(torch.complex128), *new]


parts_of_it = op(parts, complexes(3, 4), dtypes=DTYPES, dynamic={"x": {0: "batch"}})
made_of_real = op(made, floats(3, 4), floats(3, 4), dtypes=DTYPES, dynamic=BATCH_OF_BOTH, signed_zeros=False,
                  because="torch's polar multiplies a negative absolute value by a sine of 0")  # fmt: skip
parts_at_edges = op(
    lambda x: (torch.view_as_complex(x).abs(), torch.view_as_complex(x).angle()),
    given([[0.0, 0.0], [-1.0, 0.0], [0.0, -2.0], [3e20, 4e20], [3e-20, 4e-20]]),
)

# --- elements that are moved ------------------------------------------------------------------------------------------


def moved(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    views = [x.mT, x[1:, None], x.reshape(-1), x.expand(2, 3, 4), x.flip(0), x.roll(1, 1), x.tril(), x.diagonal()]
    joined = [torch.cat([x, y]), torch.stack([x, y.conj()]), *x.split(2, 1), *y.unbind(0), x.repeat(2, 1)]
    return [*views, *joined, F.pad(x, (1, 2)), torch.where(x.real > 0, x, y), x.masked_fill(y.imag > 0, 1j)]


def picked(x: torch.Tensor, places: torch.Tensor) -> list[torch.Tensor]:
    return [x[places], x.index_select(1, places), x[:, places[0]], x.gather(0, places.expand(4, 2).T), x[x.real > 0]]


def written(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    z = x.clone()
    z.mul_(y)
    z[0] = torch.tensor(1j)
    z.real.add_(1)
    z.imag[1] = 2
    return [z, x.index_put((torch.tensor([0, 2]),), y[:2]), x.index_add(0, torch.tensor([0, 0]), y[:2])]


moving = op(moved, complexes(3, 4), complexes(3, 4))
picking = op(picked, complexes(3, 4), ints(2, high=3))
writing = op(written, complexes(3, 4), complexes(3, 4))

# --- sums, products and functions -------------------------------------------------------------------------------------


def reduced(x: torch.Tensor) -> list[torch.Tensor]:
    return [x.sum(), x.sum(0), x.mean(-1), x.cumsum(1), x.prod(1), x.cumprod(0), x.norm(), x.var(0), x.std(), x.trace()]


def multiplied(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    batches = torch.einsum("bij,kj->bik", x, y)
    return [x @ y.mT, x[0] @ y[0], x[0, 0] @ y.T, batches, torch.addmm(y, x[0, :, :3], y, beta=0.5j), F.linear(x, y)]


def several(functions: list[Callable[[torch.Tensor], Any]]) -> Callable[[torch.Tensor], list[Any]]:
    return lambda x: [function(x) for function in functions]


reductions = op(reduced, complexes(3, 4), dtypes=DTYPES)
products_of_any = op(
    lambda x: (x.prod(), x.prod(0), x.prod(0, keepdim=True), x.prod(1), x.cumprod(0)),
    complexes(3, 4),
    dynamic={"x": {0: "batch"}},
    sizes={"batch": [0, 1, 7]},
)
products = op(multiplied, complexes(2, 3, 4), complexes(3, 4), dtypes=DTYPES, dynamic={"x0": {0: "batch"}})
product_with_real = op(
    lambda x, y: (x @ y.to(x.dtype), F.linear(x, (y.T + 0j).to(x.dtype))), complexes(3, 4), floats(4, 2)
)
bfloat16_times_complex = op(
    lambda x: (x * 2j, x.sin() + (1 - 1j)), floats(3, 4), dtypes=[torch.bfloat16], tier="default"
)
convolution = op(F.conv2d, complexes(2, 3, 5, 5), complexes(4, 3, 3, 3), complexes(4))
exponentials = op(several([torch.exp, torch.log, torch.log2, torch.log10, torch.sqrt, torch.rsqrt, torch.exp2]),
                  complexes(3, 4), dtypes=DTYPES)  # fmt: skip
near_zero = op(several([torch.expm1, torch.log1p]), complexes(3, 4))
#: Combinations of zeros of either sign, numbers and infinities as the two parts.
_PARTS = [0.0, -0.0, 1.0, -3.0, math.inf, -math.inf]
EDGES = given([[a, b] for a in _PARTS for b in [0.0, -0.0, 2.0, -1.5, math.inf, -math.inf]])
FINITE = given([[a, b] for a in _PARTS[:4] for b in [0.0, -0.0, 2.0, -1.5]])
UNSPECIFIED = "C leaves the signs of zeros and infinities open where a part is infinite"


def at_edges(functions: list[Callable[[torch.Tensor], Any]]) -> Callable[[torch.Tensor], list[Any]]:
    return lambda x: [function(torch.view_as_complex(x)) for function in functions]


division_at_edges = op(
    at_edges([torch.reciprocal, torch.rsqrt, lambda z: 1 / z, lambda z: (2 + 1j) / z, lambda z: z / z.flip(0),
              lambda z: z / 2, lambda z: z / z.real, lambda z: z.real / z]),
    EDGES, dtypes=DTYPES, signed_zeros=False, because=UNSPECIFIED,
)  # fmt: skip
products_at_edges = op(
    at_edges([lambda z: z * 2, lambda z: z * z.real, lambda z: z * z.flip(0), torch.square, lambda z: z * 1j]),
    EDGES, dtypes=DTYPES, signed_zeros=False, because=UNSPECIFIED,
)  # fmt: skip
#: 0 to a negative power is infinity, with an imaginary part of NaN.
powers_at_edges = op(
    at_edges([lambda z: z**-1, lambda z: z**-2, lambda z: z**-3, lambda z: z**-0.5, lambda z: z**0.5, lambda z: z**0,
              lambda z: z**1j, lambda z: z**4, lambda z: z ** (1 - 1j), lambda z: z ** (-1 + 1j), lambda z: z**2.5,
              lambda z: z**z.real, lambda z: z**-2j]),
    EDGES, dtypes=DTYPES, signed_zeros=False, because=UNSPECIFIED,
)  # fmt: skip
powers_of_zero = op(at_edges([lambda z: 0**z, lambda z: 2**z, lambda z: z**z]), FINITE, dtypes=DTYPES,
                    signed_zeros=False, because=UNSPECIFIED)  # fmt: skip
functions_at_edges = op(
    at_edges([torch.exp, torch.log, torch.sqrt, torch.tanh, torch.tan, torch.sigmoid, torch.sinh, torch.cosh,
              torch.sin, torch.cos]),
    EDGES, dtypes=DTYPES, signed_zeros=False, because=UNSPECIFIED,
)  # fmt: skip
arcs_at_edges = op(
    at_edges([torch.asin, torch.acos, torch.atan, torch.asinh, torch.acosh, torch.atanh]),
    given([[a, b] for a in [2.0, math.inf, -math.inf] for b in [2.0, -1.5, math.inf, -math.inf]]),
    dtypes=DTYPES, signed_zeros=False, because=UNSPECIFIED, without_nan="C has a rule for NaN beside each infinity",
)  # fmt: skip
powers = op(lambda x, y: (x**2, x**-1, x**0.5, x**y, 2**x, x ** (1 - 1j)), complexes(3, 4), complexes(3, 4))
trigonometry = op(several([torch.sin, torch.cos, torch.tan, torch.sinh, torch.cosh, torch.tanh, torch.sigmoid]),
                  complexes(3, 4), dtypes=DTYPES)  # fmt: skip
arcs = op(
    several([torch.asin, torch.acos, torch.atan, torch.asinh, torch.acosh, torch.atanh]),
    complexes(3, 4),
    tier="default",
)

padded_in_circles = op(lambda x: F.pad(x, (2, 1), mode="circular"), complexes(2, 3, 4), tier="default")
rms_norm_of_complex = op(lambda x: F.rms_norm(x, (4,), eps=0.1), complexes(3, 4), tier="default")

# --- weights, branches and loops --------------------------------------------------------------------------------------


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2, dtype=torch.complex64)
        self.scale = nn.Parameter(torch.randn(4, dtype=torch.complex64))
        self.register_buffer("shift", torch.randn(2, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(x * self.scale) + self.shift
        return result


weights = op(Weights(), complexes(3, 4), dtypes=[torch.float32], dynamic={"x": {0: "batch"}})
branch = op(
    lambda x, y: torch.cond(x.real.sum() > 0, lambda x, y: (x + y,), lambda x, y: (x * y,), (x, y)),
    complexes(3, 4), complexes(3, 4), dtypes=[torch.float32],
)  # fmt: skip
steps = op(lambda x: scan(lambda state, step: (state * step, state + step), x[0], x), complexes(3, 4))


# --- matrices ---------------------------------------------------------------------------------------------------------

linalg = torch.linalg


def solved(a: torch.Tensor, b: torch.Tensor) -> Any:
    right = linalg.solve(a, b.mT, left=False)
    triangle = linalg.solve_triangular(a + 3 * torch.eye(3), b, upper=True)
    unit = linalg.solve_triangular(a, b.mT, upper=False, left=False, unitriangular=True)
    return linalg.solve(a, b), linalg.solve(a, b[..., 0]), right, triangle, unit


def inverted(a: torch.Tensor) -> Any:
    return linalg.inv(a), linalg.matrix_power(a, -2), linalg.matrix_power(a, 3), linalg.inv_ex(a).info


def determinants(a: torch.Tensor) -> Any:
    return linalg.det(a), *linalg.slogdet(a)


def spectra(a: torch.Tensor) -> Any:
    return linalg.svdvals(a), linalg.eigvalsh(a), linalg.eigvalsh(a, UPLO="U"), linalg.matrix_norm(a, "nuc")


matrices_solved = op(solved, complexes(2, 3, 3), complexes(2, 3, 2), dynamic=BATCH_OF_BOTH, tier="default")
matrices_inverted = op(inverted, complexes(2, 3, 3), dynamic={"x": {0: "batch"}}, tier="default")
matrices_of_any_size = op(linalg.inv, complexes(2, 3, 3), dynamic={"x": {0: "batch", 1: "size", 2: "size"}})
determinant = op(determinants, complexes(2, 3, 3), dynamic={"x": {0: "batch"}}, tier="default")
spectrum = op(spectra, complexes(2, 3, 3), dynamic={"x": {0: "batch"}}, tier="default")
matrix_exponential = op(linalg.matrix_exp, complexes(2, 3, 3))


def factors(a: torch.Tensor) -> Any:
    """Unique: the diagonals of Cholesky's factors, and of R up to its phases, are positive."""
    whole = a @ a.mH + torch.eye(a.shape[-1], dtype=a.dtype)
    lower, info = linalg.cholesky_ex(whole)
    q, r = linalg.qr(a)
    return lower, info, linalg.cholesky(whole, upper=True), torch.cholesky_inverse(lower), q, r, linalg.qr(a, "r").R


def reflections(a: torch.Tensor, b: torch.Tensor) -> Any:
    packed, tau = torch.geqrf(a)
    both = [torch.ormqr(packed, tau, b, transpose=each) for each in (False, True)]
    right = torch.ormqr(packed, tau, b.mT, left=False)
    return packed, tau, *both, right, linalg.householder_product(packed, tau), *linalg.qr(a, "complete")


def eliminated(a: torch.Tensor, b: torch.Tensor) -> Any:
    lu, pivots, info = linalg.lu_factor_ex(a)
    solutions = [linalg.lu_solve(lu, pivots, b, adjoint=each) for each in (False, True)]
    right = linalg.lu_solve(lu, pivots, b.mT, left=False)
    return lu, pivots, info, *linalg.lu(a), *torch.lu_unpack(lu, pivots), *solutions, right


def eigenvectors(a: torch.Tensor) -> Any:
    """What is unique: the values, what the vectors make of them, and that they are orthonormal."""
    whole = a + a.mH
    values, vectors = linalg.eigh(whole)
    upper = linalg.eigh(a, UPLO="U").eigenvalues
    return values, (vectors * values.unsqueeze(-2)) @ vectors.mH, vectors.mH @ vectors, upper


def singular(a: torch.Tensor) -> Any:
    u, s, vh = linalg.svd(a, full_matrices=False)
    full_u, _, full_vh = linalg.svd(a)
    whole = (u * s.unsqueeze(-2)) @ vh
    return s, whole, u.mH @ u, vh @ vh.mH, full_u @ full_u.mH, full_vh @ full_vh.mH


def least_squares(a: torch.Tensor, b: torch.Tensor) -> Any:
    found = linalg.lstsq(a, b, driver="gelsd")
    # As many rows as columns leave no residuals: an empty vector of real numbers.
    whole = linalg.lstsq(a[:, :3], b[:, :3], driver="gels")
    return found.solution, found.rank, found.singular_values, whole.residuals, whole.singular_values


def general(a: torch.Tensor) -> Any:
    """What does not depend on the order of the eigenvalues, which may differ from that in float64."""
    values, vectors = linalg.eig(a)
    return values.sum(-1), linalg.eigvals(a).prod(-1), a @ vectors - vectors * values.unsqueeze(-2)


def symmetric_factors(a: torch.Tensor, b: torch.Tensor) -> Any:
    """Blocks of one element and of 2 by 2; of Hermitian matrices the lower triangle counts alone."""
    made: list[torch.Tensor] = []
    for hermitian, matrix in ((False, a + a.mT), (True, a)):
        factors = linalg.ldl_factor_ex(matrix, hermitian=hermitian)
        made += [*factors, linalg.ldl_solve(factors.LD, factors.pivots, b, hermitian=hermitian)]
    return made


def in_memory(x: torch.Tensor, y: torch.Tensor) -> Any:
    scattered = torch.as_strided_scatter(x, y[:2, :2], (2, 2), (4, 1), 2)
    return x.as_strided((2, 3), (4, 1), 1), (x * 2).as_strided((3, 2), (1, 3)), scattered


_ROUNDED: Keywords = {
    "tier": "default",
    "tolerance": {torch.float32: 4e-5, torch.float64: 8e-14},
    "because": "elements of products of orthonormal vectors that are 0 are sums of rounding errors",
}
cholesky_and_qr = op(
    factors, complexes(2, 4, 4), dtypes=DTYPES, dynamic={"x": {0: "batch", 1: "size", 2: "size"}},
    signed_zeros=False, because="torch divides zeros by numbers of either sign",
    tier="default",
)  # fmt: skip
householder = op(reflections, complexes(2, 5, 3), complexes(2, 5, 2), dynamic=BATCH_OF_BOTH, tier="default")
householder_in_float64 = op(reflections, complexes(2, 5, 3), complexes(2, 5, 2), dtypes=[torch.float64], tier="default")
elimination = op(
    eliminated, complexes(2, 4, 4), complexes(2, 4, 2), dtypes=DTYPES, dynamic=BATCH_OF_BOTH, tier="default"
)
elimination_of_rectangles = op(lambda a: (*linalg.lu(a), *linalg.lu(a.mT)), complexes(2, 3, 5), tier="default")
hermitian_eigenvectors = op(eigenvectors, complexes(2, 4, 4), dtypes=DTYPES, dynamic={"x": {0: "batch"}}, **_ROUNDED)
singular_vectors = op(singular, complexes(2, 5, 3), dtypes=DTYPES, dynamic={"x": {0: "batch"}}, **_ROUNDED)
singular_vectors_of_wide = op(singular, complexes(2, 3, 5), **_ROUNDED)
squares = op(least_squares, complexes(2, 5, 3), complexes(2, 5, 2), dtypes=DTYPES, dynamic=BATCH_OF_BOTH, **_ROUNDED)
eigenvectors_of_any = op(general, complexes(2, 4, 4), dtypes=DTYPES, dynamic={"x": {0: "batch"}}, **_ROUNDED)
symmetric_elimination = op(
    symmetric_factors, complexes(3, 4, 4), complexes(3, 4, 2), dtypes=DTYPES, dynamic=BATCH_OF_BOTH, tier="default",
    signed_zeros=False, because="the factor has zeros above its diagonal, which are of either sign at opset 7",
)  # fmt: skip
triangles = op(
    lambda a, b: (torch.triangular_solve(b, a), torch.triangular_solve(b, a, upper=False, transpose=True),
                  torch.cholesky_solve(b, a.tril(-1) + torch.eye(3), upper=False)),
    complexes(2, 3, 3), complexes(2, 3, 2), tier="default",
)  # fmt: skip
strided = op(in_memory, complexes(3, 4), complexes(3, 4))
summed = op(
    lambda x, i: (x.logcumsumexp(1), x.scatter(1, i, x * 2, reduce="add"), x.scatter(0, i, 2.5, reduce="add")),
    complexes(3, 4), ints(3, 2, high=3), tier="default",
)  # fmt: skip
selected = op(lambda x: (torch.nonzero_static(x, size=14), x[0, 0].masked_select(x[0, 0].real < 9)), complexes(3, 4))
divided_by_sizes = op(
    lambda x: (x / x.shape[0], x / (0.5 * x.shape[1] + 1), (x * 2).div_(x.shape[0] + 2), x.shape[1] / x),
    complexes(3, 4), dtypes=DTYPES, dynamic={"x": {0: "batch", 1: "length"}},
)  # fmt: skip
