"""Linear algebra as loops: sizes that are not in the cases, least squares, and what is refused."""

from __future__ import annotations

import pytest
import torch

import onnx_parity


def computed(function: object, *args: torch.Tensor, **options: object) -> list[torch.Tensor]:
    program = onnx_parity.export(function, args, **options)  # type: ignore[arg-type]
    results = program(*args)
    return [results] if isinstance(results, torch.Tensor) else list(results)


def test_eigenvectors_of_a_larger_matrix_are_orthonormal_and_give_it_back() -> None:
    x = torch.randn(24, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    symmetric = x + x.mT
    values, vectors = computed(torch.linalg.eigh, symmetric)
    torch.testing.assert_close(values, torch.linalg.eigvalsh(symmetric), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close((vectors * values) @ vectors.mT, symmetric, rtol=0, atol=1e-12)
    torch.testing.assert_close(vectors.mT @ vectors, torch.eye(24, dtype=torch.float64), rtol=0, atol=1e-13)


def test_singular_values_keep_their_size_beside_larger_ones() -> None:
    x = torch.randn(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    graded = x * torch.logspace(0, -12, 8, dtype=torch.float64)
    (values,) = computed(torch.linalg.svdvals, graded)
    torch.testing.assert_close(values, torch.linalg.svdvals(graded), rtol=1e-9, atol=0)


@pytest.mark.parametrize("sizes", [((5, 3), (5, 2)), ((3, 5), (3,)), ((2, 4, 4), (2, 4))])
def test_least_squares_of_the_default_driver(sizes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    generator = torch.Generator().manual_seed(2)
    a, b = (torch.randn(size, dtype=torch.float64, generator=generator) for size in sizes)
    solution, residuals, rank, singular = computed(torch.linalg.lstsq, a, b)
    expected = torch.linalg.lstsq(a, b)
    torch.testing.assert_close(solution, expected.solution)
    assert torch.equal(rank, expected.rank)
    assert residuals.shape == expected.residuals.shape == (0,)
    assert singular.shape == expected.singular_values.shape == (0,)


@pytest.mark.parametrize("rank", [2, 3])
def test_residuals_are_returned_if_the_rank_is_full(rank: int) -> None:
    generator = torch.Generator().manual_seed(3)
    example, b = (torch.randn(5, size, dtype=torch.float64, generator=generator) for size in (3, 2))
    program = onnx_parity.export(lambda a, b: torch.linalg.lstsq(a, b, driver="gelsd").residuals, (example, b))
    a = example.clone()
    a[:, rank:] = a[:, :1]
    torch.testing.assert_close(program(a, b), torch.linalg.lstsq(a, b, driver="gelsd").residuals)


def test_residuals_of_a_batch_are_returned_if_each_rank_is_full() -> None:
    generator = torch.Generator().manual_seed(4)
    a, b = (torch.randn(2, 5, size, dtype=torch.float64, generator=generator) for size in (3, 2))
    program = onnx_parity.export(lambda a, b: torch.linalg.lstsq(a, b, driver="gelsd").residuals, (a, b))
    torch.testing.assert_close(program(a, b), torch.linalg.lstsq(a, b, driver="gelsd").residuals)
    a[1, :, 1] = a[1, :, 0]
    assert program(a, b).shape == torch.linalg.lstsq(a, b, driver="gelsd").residuals.shape == (0,)


def test_a_decomposition_inside_of_a_branch() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = torch.cond(x.sum() > 0, torch.linalg.inv, lambda x: torch.linalg.qr(x).R, (x,))
        return chosen

    x = torch.tensor([[3.0, 1.0], [0.5, 2.0]])
    exported = onnx_parity.export(program, (x,))
    for each in (x, -x):
        torch.testing.assert_close(exported(each), program(each))


class OfWeights(torch.nn.Module):
    """A layer that is orthogonal, and a product with singular vectors, whose signs are torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(4, 4))
        self.weight = torch.nn.Parameter(torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        vectors, values, _ = torch.linalg.svd(self.weight)
        result: torch.Tensor = self.layer(x) @ (vectors * values) + torch.linalg.eigh(self.weight + self.weight.T)[1]
        return result


def test_what_takes_a_loop_and_depends_on_weights_alone_is_computed_at_the_export() -> None:
    torch.manual_seed(4)
    program, x = OfWeights().eval(), torch.randn(4, 4)
    model = onnx_parity.export(program, (x,), verify=True)
    assert [node.op_type for node in model.model.graph] == ["Gemm", "MatMul", "Add"]
    with pytest.raises(onnx_parity.ArgumentError, match="cannot be replaced"):
        model.apply_weights({**program.state_dict(), "weight": program.weight.detach() + 1})
    # The loops stay where other weights may be passed.
    kept = onnx_parity.export(program, (x,), do_constant_folding=False)
    assert any(node.op_type == "Loop" for node in kept.model.graph)


@pytest.mark.parametrize("driver", ["gels", "gelsd"])
def test_residuals_of_a_matrix_without_columns(driver: str) -> None:
    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        residuals: torch.Tensor = torch.linalg.lstsq(a, b, driver=driver).residuals
        return residuals

    args = torch.ones(3, 0), torch.ones(3, 2)
    # LAPACK's driver for matrices of full rank has no residuals then, and the other one has the right-hand sides.
    assert torch.equal(onnx_parity.export(program, args, opset_version=18)(*args), program(*args))


@pytest.mark.parametrize("opset", [9, 18])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_a_nan_in_any_pivot_is_in_the_determinant(opset: int, dtype: torch.dtype) -> None:
    """Which row ArgMax chooses beside a NaN is not defined: it must be none of the rows before."""
    x = torch.randn(3, 3, dtype=dtype)
    exported = onnx_parity.export(torch.linalg.det, (x,), opset_version=opset)
    for place in range(3):
        matrix = x.clone()
        matrix[place, place] = float("nan")
        assert exported(matrix).isnan().any()
