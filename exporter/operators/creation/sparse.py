"""Operators that make sparse tensors, which are refused: ONNX has no operators that take these."""

from __future__ import annotations

from typing import Any, NoReturn

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.registry.recorded import instead_of
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

_BY_INDICES = ("indices", "indices_size", "size")
_COMPRESSED = {"csr": "crow_col", "csc": "ccol_row", "bsr": "crow_col", "bsc": "ccol_row", "compressed": "comp_plain"}


@instead_of(
    *(f"aten::sparse_coo_tensor.{given}" for given in _BY_INDICES),
    "aten::_sparse_coo_tensor_unsafe",
    *(
        f"aten::sparse_{kind}_tensor.{given}_value{size}"
        for kind, given in _COMPRESSED.items()
        for size in ("", "_size")
    ),
    *(f"aten::_sparse_{kind}_tensor_unsafe" for kind in _COMPRESSED),
    "aten::to_sparse",
    "aten::to_sparse.sparse_dim",
    *(f"aten::to_sparse_{kind}" for kind in _COMPRESSED if kind != "compressed"),
    gives_operator=True,
    why="torch's sparse tensors have constant sizes, and ONNX has no operators for any",
)
def sparse_tensor(op: OpOverload, *_: Any, **__: Any) -> NoReturn:
    raise refused_here(
        f"{op.name()} makes a sparse tensor, and ONNX has no operators for these: make a dense one, "
        "torch.zeros(n, m).index_put((rows, columns), values, accumulate=True), or multiply by the sparse matrix "
        "without making it, torch.zeros(n, k).index_add(0, rows, values[:, None] * x[columns])"
    )
