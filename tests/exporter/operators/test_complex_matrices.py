"""Decompositions of complex matrices where torch's float64 result is no reference, and loops that do nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnx_parity
from onnx_parity.exporter.operators.linear_algebra.loops import qr_sweeps

linalg = torch.linalg
torch.manual_seed(0)
A = torch.randn(2, 5, 3, dtype=torch.complex64)
SQUARE = torch.randn(2, 4, 4, dtype=torch.complex64)


def exported(function: Callable[..., Any], *args: torch.Tensor, axes: dict[int, str] | None = None) -> Any:
    names = {"x": axes} if axes else None
    return onnx_parity.export(function, args, opset_version=18, input_names=["x"], dynamic_axes=names)


#: A torch function mode, which the float64 reference needs, makes torch's own pinv lose conjugates.
@pytest.mark.parametrize("options", [{}, {"rtol": 0.5}, {"atol": 0.7}])
def test_pseudoinverses(options: dict[str, float]) -> None:
    def inverse(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = linalg.pinv(x, **options)
        return result

    program = exported(inverse, A, axes={0: "batch", 1: "rows"})
    for x in (A, torch.randn(3, 2, 3, dtype=torch.complex64)):
        torch.testing.assert_close(program(x), inverse(x), atol=1e-5, rtol=1e-5)


def test_pseudoinverse_of_hermitian() -> None:
    def inverse(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = linalg.pinv(x.mH @ x, hermitian=True)
        return result

    torch.testing.assert_close(exported(inverse, A)(A), inverse(A), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("x", [SQUARE, SQUARE + SQUARE.mH, SQUARE.real + 0j, torch.eye(3) * (1 + 1j)])
def test_eigenvalues_in_the_order_of_lapack(x: torch.Tensor) -> None:
    torch.testing.assert_close(exported(linalg.eigvals, x)(x), linalg.eigvals(x), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize(("dtype", "seed"), [(torch.float64, 2), (torch.complex128, 0)])
def test_sweeps_begin_where_those_of_lapack_do(dtype: torch.dtype, seed: int) -> None:
    """Some of these matrices have two small elements below the diagonal on the way, one after the other."""
    x = torch.randn(20, 9, 9, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(exported(linalg.eigvals, x)(x), linalg.eigvals(x), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("x", [SQUARE.real, SQUARE])
def test_eigenvalues_that_were_not_found_are_nan(monkeypatch: pytest.MonkeyPatch, x: torch.Tensor) -> None:
    monkeypatch.setattr(qr_sweeps, "MOST_SWEEPS", 1)
    values = torch.view_as_real(exported(linalg.eigvals, x)(x))
    assert values.isnan().any(-1).any(-1).all()


SQUARES: dict[str, Callable[[torch.Tensor], Any]] = {
    "cholesky_ex": linalg.cholesky_ex,
    "lu_factor_ex": linalg.lu_factor_ex,
    "ldl_factor_ex": linalg.ldl_factor_ex,
    "ldl_solve": lambda x: linalg.ldl_solve(*linalg.ldl_factor(x), x),
    "solve": lambda x: linalg.solve(x, x),
    "solve_triangular": lambda x: linalg.solve_triangular(x, x, upper=True),
    "cholesky_inverse": torch.cholesky_inverse,
    "slogdet": linalg.slogdet,
    "inv_ex": linalg.inv_ex,
}


@pytest.mark.parametrize("name", SQUARES)
def test_a_batch_of_matrices_without_rows_keeps_its_size(name: str) -> None:
    program = exported(SQUARES[name], SQUARE.real, axes={0: "batch", 1: "size", 2: "size"})
    # Positive definite, as Cholesky's decomposition needs it.
    factors = torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(0)).tril() + 3 * torch.eye(2)
    for x in (torch.randn(2, 0, 0), factors):
        expected, found = SQUARES[name](x), program(x)
        pairs = [(expected, found)] if isinstance(expected, torch.Tensor) else zip(expected, found, strict=True)
        for one, other in pairs:
            torch.testing.assert_close(other, one, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("sizes", [(2, 0, 3), (2, 3, 0), (2, 4, 3)])
def test_rectangles_without_rows_or_columns(sizes: tuple[int, ...]) -> None:
    def factors(x: torch.Tensor) -> Any:
        return *linalg.qr(x), *linalg.lu_factor(x)

    program = exported(factors, A.real, axes={0: "batch", 1: "rows", 2: "columns"})
    x = torch.randn(sizes)
    for one, other in zip(factors(x), program(x), strict=True):
        torch.testing.assert_close(other, one, atol=1e-5, rtol=1e-5)
