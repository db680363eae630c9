"""Gathering and scattering along an axis and with masks: gather, scatter_add, index_copy, masked_fill, ..."""

from __future__ import annotations

import torch

from onnx_parity.exporter.dtypes import extremes
from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.opsets.gather_scatter import Reduction
from onnx_parity.exporter.lowering.values.shapes import broadcast, product, same_shape, same_size, shaped
from onnx_parity.exporter.lowering.values.value import Number, Operand, Value
from onnx_parity.exporter.registry.lowerings import lowering

#: ONNX's names of reductions by torch's.
_REDUCTIONS: dict[str | None, Reduction | None] = {
    None: None,
    "add": "add", "sum": "add", "mean": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min",
}  # fmt: skip


def _is_empty(x: Value) -> bool:
    return any(isinstance(size, int) and size == 0 for size in x.sizes)


def _at_least_1d(g: Graph, x: Value) -> Value:
    """`x`, and a 0-d tensor as a vector of one element."""
    return g.reshape(x, [1]) if x.rank == 0 else x


def _as_returned(g: Graph, x: Value) -> Value:
    """The result, and a vector as a 0-d tensor where the operator returns that."""
    return g.reshape(x, []) if not g.out.shape else x


# --- element by element -------------------------------------------------------------------------------------------


@lowering("aten::gather")
def gather(g: Graph, self: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    """y[i, j] = x[index[i, j], j], for dim 0"""
    if _is_empty(index):
        return g.full(index.sizes, 0, self.dtype)
    x = _at_least_1d(g, self)
    return _as_returned(g, g.gather_elements(x, _at_least_1d(g, index), dim % x.rank))


@lowering(
    "aten::scatter.src",
    "aten::scatter.reduce",
    "aten::scatter_add",
    "aten::scatter.value",
    "aten::scatter.value_reduce",
)
def scatter(
    g: Graph,
    self: Value,
    dim: int,
    index: Value,
    src: Value | None = None,
    value: Number = 0,
    reduce: str | None = None,
) -> Value:
    """x[index[i, j], j] = src[i, j], for dim 0"""
    if g.operator == "aten::scatter_add":
        reduce = "add"
    if _is_empty(index):
        return self
    x, indices = _at_least_1d(g, self), _at_least_1d(g, index)
    new = g.full(indices.sizes, value, self.dtype) if src is None else _fitted(g, _at_least_1d(g, src), indices)
    return _as_returned(g, g.scatter_elements(x, indices, new, dim % x.rank, _REDUCTIONS[reduce]))


def _fitted(g: Graph, src: Value, index: Value) -> Value:
    """`src` sliced to the sizes of the index."""
    axes = [axis for axis in range(index.rank) if not same_size(src.sizes[axis], index.sizes[axis])]
    if not axes:
        return src
    return shaped(g.slice(src, axes, [0] * len(axes), [index.sizes[axis] for axis in axes]), index.sizes)


@lowering("aten::scatter_reduce.two")
def scatter_reduce(
    g: Graph, self: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool = True
) -> Value:
    """scatter whose updates of one element are reduced, with the element itself or without it"""
    if _is_empty(index):
        return self
    x, indices = _at_least_1d(g, self), _at_least_1d(g, index)
    new, axis = _fitted(g, _at_least_1d(g, src), indices), dim % x.rank
    if not include_self:
        x = g.scatter_elements(x, indices, g.full(indices.sizes, _neutral(reduce, self.dtype), self.dtype), axis)
    total = g.scatter_elements(x, indices, new, axis, _REDUCTIONS[reduce])
    if reduce == "mean":
        ones = g.full(indices.sizes, 1, torch.int64)
        count = g.scatter_elements(g.full(x.sizes, int(include_self), torch.int64), indices, ones, axis, "add")
        total = _mean(g, total, count, include_self)
    return _as_returned(g, total)


def _neutral(reduce: str, dtype: torch.dtype) -> Number:
    if reduce in ("amax", "amin"):
        return extremes(dtype)[reduce == "amin"]
    return int(reduce == "prod")


def _mean(g: Graph, total: Value, count: Value, include_self: bool) -> Value:
    if not include_self:
        # An element without updates is its own mean.
        count = g.extreme("Max", count, g.const(1, torch.int64))
    if total.dtype.is_floating_point:
        return g.op("Div", total, g.cast(count, total.dtype))
    return g.cast(g.floor_divide(g.cast(total, torch.int64), count), total.dtype)


# --- row by row ---------------------------------------------------------------------------------------------------


def _rows_written(
    g: Graph, x: Value, dim: int, index: Value, source: Value, reduction: Reduction | None, factor: Number = 1
) -> Value:
    """x[index[i]] = source[i] along `dim`."""
    if _is_empty(index):
        return x
    source = g.cast(source, x.dtype) if factor == 1 else g.op("Mul", source, g.scalar(factor, source.dtype))
    if x.rank == 0:
        return _as_returned(g, _rows_written(g, _at_least_1d(g, x), 0, index, g.reshape(source, [1]), reduction))
    order = [dim, *(axis for axis in range(x.rank) if axis != dim)]
    front = g.transpose(x, order)
    news = g.transpose(source, order) if x.rank > 1 else g.reshape(source, _at_least_1d(g, index).sizes)
    indices = _at_least_1d(g, index)
    written = g.scatter_rows(front, indices, news, reduction)
    return g.transpose(written, [order.index(axis) for axis in range(x.rank)])


def _axis(x: Value, dim: int) -> int:
    return dim % max(x.rank, 1)


@lowering("aten::index_add")
def index_add(g: Graph, self: Value, dim: int, index: Value, source: Value, alpha: Number = 1) -> Value:
    """x[index[i]] += alpha * source[i]"""
    return _rows_written(g, self, _axis(self, dim), index, source, "add", alpha)


@lowering("aten::index_copy")
def index_copy(g: Graph, self: Value, dim: int, index: Value, source: Value) -> Value:
    return _rows_written(g, self, _axis(self, dim), index, source, None)


@lowering("aten::index_fill.int_Scalar", "aten::index_fill.int_Tensor")
def index_fill(g: Graph, self: Value, dim: int, index: Value, value: Operand) -> Value:
    axis = _axis(self, dim)
    filler = g.cast(value, self.dtype) if isinstance(value, Value) else g.scalar(value, self.dtype)
    count: Size = index.sizes[0] if index.rank else 1
    sizes = [*self.sizes[:axis], count, *self.sizes[axis + 1 :]]
    return _rows_written(g, self, axis, index, g.expand(filler, sizes), None)


@lowering("aten::index_reduce")
def index_reduce(
    g: Graph, self: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool = True
) -> Value:
    axis = _axis(self, dim)
    if _is_empty(index):
        return self
    x = self
    if not include_self:
        x = index_fill(g, self, axis, index, _neutral(reduce, self.dtype))
    total = _rows_written(g, x, axis, index, source, _REDUCTIONS[reduce])
    if reduce != "mean":
        return total
    ones = g.full(source.sizes, 1, torch.int64)
    start = g.full(self.sizes, int(include_self), torch.int64)
    return _mean(g, total, _rows_written(g, start, axis, index, ones, "add"), include_self)


@lowering("aten::take")
def take(g: Graph, self: Value, index: Value) -> Value:
    """x.view(-1)[index]"""
    if _is_empty(index):
        return g.full(index.sizes, 0, self.dtype)
    return g.gather(_flat(g, self), index, 0)


@lowering("aten::put")
def put(g: Graph, self: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    """x.view(-1)[index] = source"""
    if _is_empty(index):
        return self
    written = g.scatter_rows(_flat(g, self), _flat(g, index), _flat(g, source), "add" if accumulate else None)
    return g.reshape(written, self.sizes)


def _flat(g: Graph, x: Value) -> Value:
    if x.rank == 1:
        return x
    return g.reshape(x, [product(x.sizes)])


# --- with masks ---------------------------------------------------------------------------------------------------


@lowering("aten::masked_fill")
def masked_fill(g: Graph, self: Value, mask: Value, value: Operand) -> Value:
    filler = g.cast(value, self.dtype) if isinstance(value, Value) else g.scalar(value, self.dtype)
    return g.where(mask, shaped(filler, []), self)


@lowering("aten::masked_select")
def masked_select(g: Graph, self: Value, mask: Value) -> Value:
    flags = g.cast(mask, torch.bool)
    sizes = broadcast(self, flags)
    pairs = ((self, flags), (flags, self))
    if sizes is not None:
        spread = [_flat(g, _at_least_1d(g, _spread(g, one, sizes))) for one, _ in pairs]
    else:
        # Which of two sizes is 1 is known at run time only, and each Expand finds it.
        whole = [g.op("Expand", one, g.op("Shape", other)) for one, other in pairs]
        spread = [g.op("Reshape", each, g.const([-1], torch.int64)) for each in whole]
    return g.op("Compress", *spread, axis_i=0)


@lowering("aten::masked_scatter")
def masked_scatter(g: Graph, self: Value, mask: Value, source: Value) -> Value:
    """Where the mask is true, the elements of `source` in order"""
    sizes = g.out.shape
    x, flags = _spread(g, self, sizes), _spread(g, mask, sizes)
    if _is_empty(x) or _is_empty(source):
        return x
    return g.reshape(g.scatter_masked(_flat(g, x), _flat(g, flags), _flat(g, source)), sizes)


def _spread(g: Graph, x: Value, sizes: tuple[Size, ...]) -> Value:
    return x if same_shape(x.sizes, sizes) else g.expand(x, sizes)
