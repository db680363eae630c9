"""Sparse tensors in the format of coordinates: made, converted, multiplied, and added up, with edges of any number."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onnx_parity.harness.case import Keywords, floats, ints, op

_GRAPH = (ints(2, 7, high=5), floats(7), floats(5, 3))
_ANY_GRAPH: Keywords = {
    "dynamic": {"x0": {1: "edges"}, "x1": {0: "edges"}, "x2": {0: "nodes"}},
    "sizes": {"edges": [0, 1, 11], "nodes": [5, 7]},
    "without_draws": "torch does not check that the graph has the nodes that its edges name",
}


def _edges(places: Tensor, values: Tensor, x: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(places, values, (x.shape[0], x.shape[0]))


def multiplied(places: Tensor, values: Tensor, x: Tensor) -> Any:
    edges = _edges(places, values, x)
    products = torch.sparse.mm(edges, x), edges.t() @ x, edges.transpose(0, 1) @ x[:, 0], torch.mm(edges * 2, x)
    return *products, x.mT @ edges, torch.sparse.addmm(x, edges, x, beta=0.5, alpha=2)


def converted(places: Tensor, values: Tensor, x: Tensor) -> Any:
    edges = _edges(places, values, x)
    whole = edges.coalesce()
    parts = edges.to_dense(), whole.indices(), whole.values(), edges._indices(), edges._values()
    return *parts, x * edges.shape[0] + edges._nnz() + edges.dim() + edges.is_sparse + whole.is_coalesced()


def added(places: Tensor, values: Tensor, x: Tensor) -> Any:
    edges = _edges(places, values, x)
    both = edges + edges.t() - edges / 4
    return both.to_dense(), x @ x.mT + edges, torch.sparse.sum(edges), torch.sparse.sum(both, dim=1).to_dense()


def of_each_element(places: Tensor, values: Tensor, x: Tensor) -> Any:
    edges = _edges(places, values, x)
    weighed = edges.coalesce() * (x @ x.mT)
    return weighed.to_dense(), torch.tanh(edges).to_dense(), torch.sparse.softmax(edges, dim=1).to_dense()


def with_rows(places: Tensor, values: Tensor, x: Tensor) -> Any:
    """A row at each place, and values in another dtype."""
    rows = torch.sparse_coo_tensor(places, values[:, None] * x[0], (*x.shape[:1], 5, 3))
    wide = torch.sparse_coo_tensor(places, values, (5, 5), dtype=torch.float64)
    return torch.sparse.sum(rows, 1).to_dense(), torch.sparse.sum(wide, -2).to_dense(), rows.to_dense()


def made_of_dense(x: Tensor, y: Tensor) -> Any:
    edges = x.relu().to_sparse()
    weights = torch.sparse.softmax(edges, dim=-1, dtype=torch.float64)
    return edges.indices(), edges.values(), edges @ y, edges.to(torch.float64).to_dense(), weights.to_dense()


sparse_products = op(
    multiplied, *_GRAPH, **_ANY_GRAPH, without_nan="torch's kernels leave out some products with zeros"
)
sparse_conversions = op(converted, *_GRAPH, **_ANY_GRAPH)
sparse_sums = op(added, *_GRAPH, **_ANY_GRAPH)
sparse_rows = op(with_rows, *_GRAPH, **_ANY_GRAPH)
sparse_elements = op(of_each_element, *_GRAPH, **_ANY_GRAPH)
sparse_of_dense = op(
    made_of_dense,
    floats(4, 3),
    floats(3, 2),
    dynamic={"x0": {0: "rows", 1: "columns"}, "x1": {0: "columns"}},
    sizes={"rows": [1, 5], "columns": [1, 4]},
    without_nan="NaN is an element that is there",
)
