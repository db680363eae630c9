"""Products of groups of rows, each with a matrix of its own, as in mixtures of experts."""

from __future__ import annotations

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("aten::_grouped_mm")
def grouped_mm(
    g: Graph, self: Value, mat2: Value, offs: Value | None = None, bias: Value | None = None,
    out_dtype: torch.dtype | None = None,
) -> Value:  # fmt: skip
    """Rows `offs[i - 1]` to `offs[i]` of x, multiplied by matrix i"""
    if bias is not None:
        g.unsupported("torch does not compute it with a bias either: add the bias afterwards")
    if offs is None:
        return g.cast(g.matmul(self, mat2), g.out.dtype)
    if (self.rank, mat2.rank) != (2, 3):
        g.unsupported(
            f"groups of {self.rank} and {mat2.rank} axes are not supported, only groups of rows of a matrix: multiply "
            "group by group"
        )
    return g.cast(_by_group(g, self, mat2, offs), g.out.dtype)


# transformers calls this operator of its own while a model is exported, and `_grouped_mm` otherwise.
@lowering("transformers::grouped_mm_fallback")
def grouped_mm_fallback(g: Graph, input: Value, weight: Value, offs: Value) -> Value:
    return _by_group(g, input, weight, offs)


def _by_group(g: Graph, rows: Value, matrices: Value, ends: Value) -> Value:
    """The groups' products, one below the other; rows after the last group become 0."""
    count = matrices.sizes[0]
    if not isinstance(count, int):
        g.unsupported("the number of matrices is dynamic: remove that axis from dynamic_axes")
    size, width = matrices.sizes[1:]
    bounds = [*g.split(g.cast(ends, torch.int64), 0, [1] * count), g.ints([rows.sizes[0]])]
    zeros = g.full([1, size, width], 0, rows.dtype)
    products = []
    first = g.const([0], torch.int64)
    for matrix, last in zip([*g.split(matrices, 0, [1] * count), zeros], bounds, strict=True):
        group = g.between(rows, 0, first, last)
        products.append(g.op("MatMul", group, matrix))
        first = last
    joined = g.op("Concat", *products, axis_i=1)
    return shaped(g.squeeze(shaped(joined, (1, rows.sizes[0], width)), [0]), (rows.sizes[0], width))
