"""Sparse tensors that a program has of its own, and what is refused of sparse tensors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity
from tests.exporter.subjects import assert_agrees

X = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
EDGES = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.5, 1.0]])
SPARSE = EDGES.to_sparse()
PLACES = torch.tensor([[0, 1], [1, 0]])

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")


class Smooths(nn.Module):
    """Has a graph as a sparse buffer, and its transpose as an attribute in another format."""

    edges: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("edges", EDGES.to_sparse())
        self.turned: Any = EDGES.mT.to_sparse_csr()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        columns = x.movedim(0, 2).flatten(1)
        smoothed = torch.sparse.mm(self.edges, columns) + self.turned @ columns
        return torch.movedim(smoothed.unflatten(1, (x.shape[2], x.shape[0])), 2, 0)


def test_sparse_weights() -> None:
    module = Smooths()
    exported = onnx_parity.export(module, (X,), dynamic_shapes=({0: "batch", 2: "features"},))
    assert module.edges.layout is torch.sparse_coo
    assert module.turned.layout is torch.sparse_csr
    assert exported.assumptions == ()
    for batch, features in ((1, 1), (5, 7)):
        assert_agrees(exported, module, torch.linspace(-1, 1, batch * 3 * features).reshape(batch, 3, features))


def _by_coordinates(x: torch.Tensor, **options: Any) -> Any:
    return torch.sparse_coo_tensor(PLACES, torch.ones(2), (2, 2), **options)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            lambda x: _by_coordinates(x)[0],
            "the program gives a sparse tensor to getitem, which the exporter does not have for sparse tensors: call "
            "it with its to_dense(), or compute with its indices() and values()",
        ),
        (
            lambda x: torch.sparse.mm(_by_coordinates(x), _by_coordinates(x)),
            "the program gives a sparse tensor to a product with another sparse tensor, which the exporter does not "
            "have for sparse tensors: call it with its to_dense(), or compute with its indices() and values()",
        ),
        (
            lambda x: torch.sparse_coo_tensor(PLACES, torch.ones(2)).to_dense() + x[0, 0, 0],
            "the program makes a sparse tensor without a size, which is that of its greatest indices: give it a size",
        ),
        (
            lambda x: x[0].to_sparse_csr() @ x[1].mT,
            "aten::to_sparse_csr makes a sparse tensor, and ONNX has no operators for these: make a dense one, "
            "torch.zeros(n, m).index_put((rows, columns), values, accumulate=True), or multiply by the sparse matrix "
            "without making it, torch.zeros(n, k).index_add(0, rows, values[:, None] * x[columns])",
        ),
        (
            lambda x: torch.sparse.mm(SPARSE, x[0]),
            "the program computes with a torch.sparse_coo tensor of sizes [3, 3], and ONNX has no operators for sparse "
            "tensors: convert it with to_dense() before the export, or keep its indices and values as tensors",
        ),
        (
            _by_coordinates,
            "the program returns a sparse tensor, which ONNX has as constants alone: return its to_dense(), or its "
            "indices() and values()",
        ),
    ],
)
@pytest.mark.parametrize("dynamic", [None, ({2: "features"},)])
def test_what_is_refused_of_sparse_tensors(program: Callable[..., Any], message: str, dynamic: Any) -> None:
    with pytest.raises(onnx_parity.CaptureError, match="^" + re.escape(message)):
        onnx_parity.export(program, (X,), dynamic_shapes=dynamic)


def _added_in_place(x: torch.Tensor) -> torch.Tensor:
    """What has another name is written to as well."""
    whole = same = _by_coordinates(x)
    same += whole
    dense: torch.Tensor = whole.to_dense()
    return dense


_NOT_FOR_SPARSE = (
    ", which the exporter does not have for sparse tensors: call it with its to_dense(), or compute with its indices() "
    "and values()"
)


@pytest.mark.parametrize(
    ("program", "what"),
    [
        (lambda x: _by_coordinates(x) + 1, "a sum with a number"),
        (lambda x: torch.matmul(_by_coordinates(x), x[:, :2]), "a product with a tensor of more than two axes"),
        (lambda x: _by_coordinates(x) / x[:, :2, 0], "a quotient other than by a number"),
        (lambda x: _by_coordinates(x) * _by_coordinates(x), "a product with another sparse tensor"),
        (lambda x: _by_coordinates(x) ** -1, "pow"),
        (
            lambda x: torch.sparse.sum(_by_coordinates(x), (0, 1)),
            "a sum over all of its axes, or over those of its values",
        ),
        (lambda x: x[0].to_sparse().reshape(-1), "reshape"),
        (lambda x: x.to_sparse().t(), "t, and it is no matrix of numbers"),
        (lambda x: bool(x[0].to_sparse()), "bool()"),
        (lambda x: x[0].to_sparse() == x[1].to_sparse(), "eq"),
        (lambda x: _by_coordinates(x).div(2, rounding_mode="floor"), "div with these arguments"),
        (_added_in_place, "iadd"),
        (lambda x: x[0].to_sparse().grad, "grad"),
        (
            lambda x: torch.sparse_coo_tensor(x.long()[0, :2], x[0, 0], (9, 9)).is_coalesced(),
            "is_coalesced, and it has a dynamic number of elements, of which up to one are in order",
        ),
    ],
)
def test_what_there_is_not_for_sparse_tensors(program: Callable[..., Any], what: str) -> None:
    message = re.escape(f"the program gives a sparse tensor to {what}{_NOT_FOR_SPARSE} (at ")
    with pytest.raises(onnx_parity.CaptureError, match=f"^{message}"):
        onnx_parity.export(program, (X,), dynamic_shapes=({2: "features"},))


def test_values_of_elements_that_are_not_added_up_are_refused_as_in_torch() -> None:
    with pytest.raises(onnx_parity.CaptureError, match="Cannot get values on an uncoalesced tensor"):
        onnx_parity.export(lambda x: _by_coordinates(x).values() + x[0, 0, 0], (X,))
