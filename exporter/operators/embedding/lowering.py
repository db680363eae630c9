"""Embedding lookup, alone or reduced over bags, and `one_hot` of as many classes as values or dynamic sizes say."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import product, shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.reduction.lowering import vector_norm
from onnx_parity.exporter.recording.fakes.metadata import are_on_one_device
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.recorded import instead_of
from onnx_parity.exporter.registry.results import Contiguous, result_of


@lowering("aten::embedding")
def embedding(
    g: Graph,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    # padding_idx, scale_grad_by_freq and sparse only affect gradients.
    return g.op("Gather", weight, indices, axis_i=0)


@lowering("aten::embedding_renorm")
def embedding_renorm(g: Graph, self: Value, indices: Value, max_norm: float, norm_type: float) -> Value:
    """The table, with the rows that are looked up scaled down to a norm of at most `max_norm`"""
    index = g.reshape(indices, [product(indices.sizes)])
    rows = shaped(g.op("Gather", self, index, axis_i=0), [*index.sizes, *self.sizes[1:]])
    norm = vector_norm(g, rows, norm_type, 1, keepdim=True)
    limit = g.const(max_norm, rows.dtype)
    scale = g.op("Div", limit, g.op("Add", norm, g.const(1e-7, rows.dtype)))
    too_long = g.greater(norm, limit)
    scaled = g.op("Mul", rows, g.where(too_long, scale, g.const(1, rows.dtype)))
    return g.scatter_rows(self, index, scaled)


_SUM, _MEAN, _MAX = range(3)


@lowering("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def embedding_bag(
    g: Graph,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Value:
    """The sum, mean or elementwise maximum of the rows of each bag; zeros for an empty bag"""
    if any(g.is_used(output) for output in (1, 2, 3)):
        g.unsupported(
            "the program uses an output of embedding_bag beside the first, and only the first can be exported: call "
            "F.embedding_bag, which returns that alone"
        )
    bags, width = g.out.shape
    count = indices.sizes[0]
    if any(isinstance(size, int) and size == 0 for size in (count, bags)):
        return g.full([bags, width], 0, weight.dtype)
    index, bag = g.cast(indices, torch.int64), _bag_of(g, offsets, count)
    if padding_idx >= 0:
        padding = g.equal(index, g.const(padding_idx, torch.int64))
        bag = shaped(g.where(padding, g.scalar(bags, torch.int64), bag), [count])

    def per_bag(rows: Value, sizes: list[Size], greatest: bool = False) -> Value:
        # Rows that belong to no bag, as padding or after the last offset, go into one more bag, which is dropped.
        start = g.full([bags + 1, *sizes], -math.inf if greatest else 0, rows.dtype)
        reduced = g.scatter_rows(start, bag, rows, "max" if greatest else "add")
        return shaped(g.slice(reduced, [0], [0], [bags]), [bags, *sizes])

    rows = shaped(g.op("Gather", weight, index, axis_i=0), [count, width])
    if per_sample_weights is not None:
        rows = g.op("Mul", rows, g.unsqueeze(per_sample_weights, [1]))
    if mode == _MAX:
        rows = _without_later_nan(g, rows, bag, bags)
    result = per_bag(rows, [width], greatest=mode == _MAX)
    if mode == _SUM:
        return result
    sizes = g.unsqueeze(per_bag(g.full([count], 1, torch.int64), []), [1])
    if mode == _MEAN:
        return g.op("Div", result, g.cast(g.extreme("Max", sizes, g.const(1, torch.int64)), weight.dtype))
    is_empty = g.equal(sizes, g.const(0, torch.int64))
    return g.where(is_empty, g.const(0, weight.dtype), result)


def _without_later_nan(g: Graph, rows: Value, bag: Value, bags: Size) -> Value:
    """The rows with -inf for each NaN but those in the first row of a bag: no later element is greater than a NaN, and
    a NaN is not greater than what has been met."""
    count = rows.sizes[0]
    number = g.iota(count)
    first = g.scatter_rows(g.full([bags + 1], count, torch.int64), bag, number, "min")
    is_first = g.equal(g.op("Gather", first, bag, axis_i=0), number)
    is_kept = g.op("Or", g.unsqueeze(shaped(is_first, [count]), [1]), g.op("Not", g.is_nan(rows)))
    return g.where(is_kept, rows, g.const(-math.inf, rows.dtype))


def _bag_of(g: Graph, offsets: Value, count: Size) -> Value:
    """The number of the bag of each index: one less than the number of bags that start at it or before."""
    starts = g.unsqueeze(g.cast(offsets, torch.int64), [1])
    started = g.op("Not", g.less(g.along(count, 1, 2), starts))
    number = g.reduce("Sum", g.cast(started, torch.int64), [0], keepdim=False)
    return g.op("Sub", number, g.const(1, torch.int64))


# --- results ----------------------------------------------------------------------------------------------------------


@result_of("aten::embedding", why="torch's fake kernel imports sympy, and takes 5 ms with dynamic sizes")
def looked_up(weight: torch.Tensor, indices: torch.Tensor, *options: Any) -> Any:
    is_table = weight.ndim == 2 and indices.dtype in (torch.int32, torch.int64) and are_on_one_device(weight, indices)
    return Contiguous(weight.dtype, (*indices.shape, weight.shape[1])) if is_table else NotImplemented


# --- what is recorded instead -----------------------------------------------------------------------------------------


@instead_of("aten::one_hot", why="torch's reads the greatest value as a plain int, and its checks end torch.vmap")
def one_hot(x: torch.Tensor, num_classes: Size = -1) -> Any:
    count: Any = x.max().item() + 1 if isinstance(num_classes, int) and num_classes == -1 else num_classes
    classes = torch.arange(count, dtype=x.dtype, device=x.device)
    return (x.unsqueeze(-1) == classes).to(torch.int64, memory_format=torch.contiguous_format)
