"""Views, permutations and copies, which change shapes and dtypes only."""

from __future__ import annotations

import torch

from onnx_parity.exporter.graph.graph import Holds
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import same_shape, same_size
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("aten::clone", "aten::detach", "aten::alias", "aten::lift_fresh", "aten::lift_fresh_copy")
def same(g: Graph, self: Value) -> Value:
    return self


@lowering("aten::_to_copy")
def to_copy(g: Graph, self: Value | float, dtype: torch.dtype | None = None) -> Value:
    # torch.vmap converts the numbers of a program, too.
    return g.cast(self, g.out.dtype) if isinstance(self, Value) else g.const(self, g.out.dtype)


@lowering("prims::copy_strided")
def copy_strided(g: Graph, a: Value, **_stride: object) -> Value:
    return a  # Values of a graph have no memory.


@lowering("prims::convert_element_type")
def convert_element_type(g: Graph, a: Value, dtype: torch.dtype) -> Value:
    return g.cast(a, dtype)


@lowering("aten::copy", "aten::copy_")
def copy(g: Graph, self: Value, src: Value) -> Value:
    """`src` in the dtype and shape of `self`; copy_ is recorded for a buffer or an input that the program writes to"""
    x = g.cast(src, g.out.dtype)
    return x if same_shape(x.sizes, self.sizes) else g.expand(x, g.out.shape)


@lowering("aten::view", "aten::_unsafe_view", "aten::_reshape_alias")
def view(g: Graph, self: Value, **_shape: object) -> Value:
    # torch has computed the shape, in whatever way the program gives it.
    sizes = g.out.shape
    if same_shape(sizes, self.sizes):
        return self
    flattens = len(sizes) == 2 and self.rank > 2 and same_size(self.sizes[0], sizes[0])
    if flattens and not any(same_size(size, 0) for size in self.sizes[1:]) and g.has_kernel("Flatten", self.dtype):
        return g.op("Flatten", self, axis_i=1)
    return g.reshape(self, sizes)


@lowering("aten::t")
def t(g: Graph, self: Value) -> Value:
    return g.transpose(self, list(range(self.rank))[::-1])


@lowering("aten::transpose.int")
def transpose(g: Graph, self: Value, dim0: int, dim1: int) -> Value:
    order = list(range(self.rank))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return g.transpose(self, order)


@lowering("aten::permute")
def permute(g: Graph, self: Value, dims: list[int]) -> Value:
    return g.transpose(self, [dim % self.rank for dim in dims])


@lowering("aten::expand")
def expand(g: Graph, self: Value, size: object = None, implicit: bool = False) -> Value:
    if same_shape(self.sizes, g.out.shape):
        return self
    expanded = g.expand(self, g.out.shape)
    expanded.repeats = self.repeats or self
    return expanded


@lowering("aten::unsqueeze")
def unsqueeze(g: Graph, self: Value, dim: int) -> Value:
    return g.unsqueeze(self, [dim % (self.rank + 1)])


@lowering("aten::squeeze")
def squeeze(g: Graph, self: Value, dim: int | list[int] | None = None) -> Value:
    dims = (
        range(self.rank) if dim is None else [d % max(self.rank, 1) for d in ([dim] if isinstance(dim, int) else dim)]
    )
    ones = [d for d in dims if d < self.rank and isinstance(self.sizes[d], int) and self.sizes[d] == 1]
    if g.out.holds is not Holds.ANY_RANK:
        dropped = self.rank - len(g.out.shape)
        if len(ones) < dropped:
            # Within a branch on their sizes, dynamic axes are known to be 1.
            ones += [d for d in dims if not isinstance(self.sizes[d], int)]
            if len(ones) != dropped:
                g.unsupported("of its dynamic axes some are 1 within a branch, and others are not")
        return g.squeeze(self, sorted(ones))
    if dim is None:
        return g.op("Squeeze", self)
    x = self
    # From the last axis on, so that those before it keep their numbers.
    for axis in sorted((d for d in dims if not isinstance(self.sizes[d], int) or d in ones), reverse=True):
        x = g.squeeze(x, [axis]) if axis in ones else g.squeeze_if_one(x, g.size(self, axis), axis)
    return x
