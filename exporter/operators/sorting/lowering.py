"""topk, sort and kthvalue, nonzero, unique values, and repeat_interleave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import product
from onnx_parity.exporter.lowering.values.value import Number, Value
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.results import Contiguous, result_of
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload


@lowering("aten::topk")
def topk(
    g: Graph, self: Value, k: Size, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, Value]:
    # With sorted=False, torch promises no order.
    return _top_k(g, self, k, dim, largest)


def _top_k(g: Graph, x: Value, k: Size, dim: int, largest: bool) -> tuple[Value, Value]:
    if x.rank == 0:
        if isinstance(k, int) and k == 0:
            return g.full([], 0, x.dtype), g.full([], 0, torch.int64)
        return x, g.const(0, torch.int64)
    return g.top_k(x, k, dim % x.rank, largest)


@lowering("aten::sort", "aten::sort.stable")
def sort(
    g: Graph, self: Value, dim: int = -1, descending: bool = False, stable: bool | None = None
) -> tuple[Value, Value]:
    """topk of the whole axis, which is stable because TopK orders equal elements by index"""
    return _top_k(g, self, self.sizes[dim % self.rank] if self.rank else 1, dim, descending)


@lowering("aten::kthvalue")
def kthvalue(g: Graph, self: Value, k: Size, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """The last of the k smallest elements"""
    values, indices = _top_k(g, self, k, dim, largest=False)
    if self.rank == 0:
        return values, indices
    axis = dim % self.rank
    last = [g.slice(part, [axis], [k - 1], [k]) for part in (values, indices)]
    first, second = last if keepdim else [g.squeeze(part, [axis]) for part in last]
    return first, second


# --- nonzero elements ---------------------------------------------------------------------------------------------


def _nonzero_rows(g: Graph, x: Value) -> Value:
    """A row of indices for each element that is not zero."""
    flags = x if x.dtype is torch.bool else g.not_equal(x, g.const(0, x.dtype))
    if x.rank == 0:
        rows = g.op("NonZero", g.reshape(flags, [1]))
        return g.slice(g.op("Transpose", rows, perm_i=[1, 0]), [1], [0], [0])
    return g.op("Transpose", g.op("NonZero", flags), perm_i=[1, 0])


@lowering("aten::nonzero")
def nonzero(g: Graph, self: Value) -> Value:
    return _nonzero_rows(g, self)


@lowering("aten::nonzero_static")
def nonzero_static(g: Graph, self: Value, size: int, fill_value: int = -1) -> Value:
    """The first `size` rows of nonzero, followed by rows of `fill_value` if there are fewer"""
    padding = g.full([size, self.rank], fill_value, torch.int64)
    if self.rank == 0 or size == 0:
        return padding
    return g.slice(g.op("Concat", _nonzero_rows(g, self), padding, axis_i=0), [0], [0], [size])


# --- distinct values ----------------------------------------------------------------------------------------------


@lowering("aten::_unique2", "aten::_unique")
def unique(
    g: Graph, self: Value, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Value, ...]:
    """The runs of equal values of the sorted elements"""
    size = product(self.sizes)
    flat = g.reshape(self, [size])
    ordered, indices = g.top_k(flat, size, 0, largest=False)
    distinct, inverse, counts = _runs(g, ordered, 0, return_inverse, return_counts)
    if inverse is not None:
        blank = g.full([size], 0, torch.int64)
        inverse = g.reshape(g.scatter_rows(blank, indices, inverse), self.sizes)
    return distinct, *_asked_for(g, inverse, counts)


@lowering("aten::unique_dim")
def unique_dim(
    g: Graph, self: Value, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Value, ...]:
    """Slices are ordered by their first different element, in ONNX as in torch"""
    distinct, _, inverse, counts = g.op("Unique", self, axis_i=dim % self.rank, sorted_i=1, outputs=4)
    return distinct, *_asked_for(g, inverse if return_inverse else None, counts if return_counts else None)


@lowering("aten::unique_consecutive")
def unique_consecutive(
    g: Graph, self: Value, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Value, ...]:
    x, axis = self, dim
    if x.rank == 0 or axis is None:
        size = product(self.sizes)
        x, axis = g.reshape(self, [size]), 0
    distinct, inverse, counts = _runs(g, x, axis % x.rank, return_inverse, return_counts)
    if inverse is not None and dim is None:
        inverse = g.reshape(inverse, self.sizes)
    return distinct, *_asked_for(g, inverse, counts)


def _asked_for(g: Graph, *results: Value | None) -> list[Value]:
    """The results, and empty tensors, as in torch, instead of those that were not asked for."""
    return [g.full([0], 0, torch.int64) if result is None else result for result in results]


def _runs(
    g: Graph, x: Value, axis: int, return_inverse: bool, return_counts: bool
) -> tuple[Value, Value | None, Value | None]:
    """The first slice of each run of equal ones; for each slice, the number of its run; the length of each run."""
    size = x.sizes[axis]
    if isinstance(size, int) and size == 0:
        nothing = g.full([0], 0, torch.int64)
        return x, nothing if return_inverse else None, nothing if return_counts else None
    later = g.slice(x, [axis], [1], [size])
    earlier = g.slice(x, [axis], [0], [size - 1])
    others = [other for other in range(x.rank) if other != axis]
    changes = g.not_equal(later, earlier)
    if others:
        changes = g.cast(g.reduce("Max", g.cast(changes, torch.int32), others, keepdim=False), torch.bool)
    first = g.const([True], torch.bool)
    if not isinstance(size, int):
        # An empty axis has no first slice.
        first = g.slice(first, [0], [0], [size])
    starts = g.op("Concat", first, changes, axis_i=0)
    inverse = counts = None
    if return_inverse:
        inverse = g.op("Sub", g.cumulative_count(starts, size), g.const(1, torch.int64))
    if return_counts:
        first = g.reshape(g.op("NonZero", starts), [-1])
        ends = g.op("Concat", g.slice(first, [0], [1], [2**63 - 1]), g.ints([size]), axis_i=0)
        counts = g.op("Sub", ends, first)
    return g.op("Compress", x, starts, axis_i=axis), inverse, counts


@lowering("aten::repeat_interleave.Tensor")
def repeat_interleave(g: Graph, repeats: Value, output_size: Number | None = None) -> Value:
    """[0] * repeats[0] + [1] * repeats[1] + ...: element j is the number of entries whose copies end at j or before"""
    if repeats.constant is not None:
        return g.cast(g.const(torch.repeat_interleave(repeats.constant)), repeats.dtype)
    size = repeats.sizes[0]
    ends = g.cumsum_of_vector(g.cast(repeats, torch.int64), size)
    total = g.reduce("Sum", g.cast(repeats, torch.int64), [0], keepdim=True)
    indices = g.iota(output_size) if isinstance(output_size, int) else g.iota_below(total)
    passed = g.op("Not", g.less(g.unsqueeze(indices, [1]), g.unsqueeze(ends, [0])))
    return g.cast(g.reduce("Sum", g.cast(passed, torch.int64), [1], keepdim=False), repeats.dtype)


# --- results ----------------------------------------------------------------------------------------------------------


_aten = torch.ops.aten


@result_of(
    "aten::unique_consecutive",
    why=(
        "torch 2.13's fake kernel only accepts a positive axis, and that of torch 2.11 gives indices and counts the "
        "dtype of the values"
    ),
    static=False,
)
def unique_consecutive_result(
    self: torch.Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    axis = None if dim is None else dim % max(self.ndim, 1)
    return _with_places(_aten.unique_consecutive.default)(self, return_inverse, return_counts, axis)


def _with_places(unique: OpOverload) -> Callable[..., Any]:
    def result(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        values, *others = unique(self, *args, **kwargs)
        return values, *(Contiguous(torch.int64, tuple(each.shape)) for each in others)

    return result


for _op in (_aten._unique2.default, _aten.unique_dim.default):
    result_of(
        _op.name(), why="torch 2.11's fake kernel gives indices and counts the dtype of the values", static=False
    )(_with_places(_op))
