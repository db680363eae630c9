"""Shapes: views, permutations, copies. No values change, and none is moved to another shape than asked for."""

from __future__ import annotations

import torch

from exporter.lowering.builder import Graph
from exporter.lowering.extents import same_shape, same_size
from exporter.lowering.registry import lowering
from exporter.lowering.values import Value


@lowering(
    "aten::clone", "aten::detach", "aten::alias", "aten::lift_fresh", "aten::lift_fresh_copy", "aten::contiguous",
    "aten::positive", "aten::real", "aten::resolve_conj", "aten::resolve_neg",
)  # fmt: skip
def same(g: Graph, self: Value) -> Value:
    return self


@lowering("aten::_to_copy", "aten::to", "prims::convert_element_type")
def to_copy(g: Graph, self: Value, dtype: torch.dtype | None = None) -> Value:
    return g.cast(self, g.out.dtype)


@lowering("aten::copy")
def copy(g: Graph, self: Value, src: Value) -> Value:
    x = g.cast(src, g.out.dtype)
    return x if same_shape(x.sizes, self.sizes) else g.expand(x, g.out.shape)


@lowering("aten::copy_")
def copy_(g: Graph, self: Value, src: Value) -> Value:
    return copy(g, self, src)


@lowering(
    "aten::view", "aten::view_as", "aten::_unsafe_view", "aten::_reshape_alias",
    "aten::reshape", "aten::reshape_as", "aten::flatten.using_ints", "aten::unflatten.int",
    "aten::ravel", "aten::atleast_1d", "aten::atleast_2d", "aten::atleast_3d",
)  # fmt: skip
def view(g: Graph, self: Value, **_shape: object) -> Value:
    # torch has worked out the shape, however it was asked for.
    sizes = g.out.shape
    if same_shape(sizes, self.sizes):
        return self
    flattens = len(sizes) == 2 and self.rank > 2 and same_size(self.sizes[0], sizes[0])
    whole = all(isinstance(s, int) and s > 0 for s in self.sizes[1:])
    if flattens and whole and g.has_kernel("Flatten", self.dtype):
        return g.op("Flatten", self, axis_i=1)
    return g.reshape(self, sizes)


@lowering("aten::view.dtype")
def view_dtype(g: Graph, self: Value, dtype: torch.dtype) -> Value:
    if self.dtype is not dtype:
        g.unsupported(f"ONNX has no operator that reads the bits of {self.dtype} as {dtype}")
    return self


@lowering("aten::t", "aten::numpy_T")
def t(g: Graph, self: Value) -> Value:
    return g.transpose(self, list(range(self.rank))[::-1])


@lowering("aten::transpose.int", "aten::swapaxes", "aten::swapdims")
def transpose(g: Graph, self: Value, dim0: int, dim1: int) -> Value:
    order = list(range(self.rank))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return g.transpose(self, order)


@lowering("aten::permute")
def permute(g: Graph, self: Value, dims: list[int]) -> Value:
    return g.transpose(self, [dim % self.rank for dim in dims])


@lowering("aten::movedim.int", "aten::movedim.intlist")
def movedim(g: Graph, self: Value, source: int | list[int], destination: int | list[int]) -> Value:
    """The axes in `source` go to `destination`; the others keep their order around them"""
    places = range(self.rank)
    pairs = zip(*([d % self.rank for d in _listed(dims)] for dims in (source, destination)), strict=True)
    coming = {to: come for come, to in pairs}
    others = iter([axis for axis in places if axis not in coming.values()])
    return g.transpose(self, [coming[place] if place in coming else next(others) for place in places])


def _listed(dims: int | list[int]) -> list[int]:
    return [dims] if isinstance(dims, int) else dims


@lowering("aten::expand", "aten::expand_as", "aten::broadcast_to")
def expand(g: Graph, self: Value, size: object = None, implicit: bool = False, other: object = None) -> Value:
    return self if same_shape(self.sizes, g.out.shape) else g.expand(self, g.out.shape)


@lowering("aten::unsqueeze")
def unsqueeze(g: Graph, self: Value, dim: int) -> Value:
    return g.unsqueeze(self, [dim % (self.rank + 1)])


@lowering("aten::squeeze")
def squeeze(g: Graph, self: Value, dim: int | list[int] | None = None) -> Value:
    dims = range(self.rank) if dim is None else [d % max(self.rank, 1) for d in _listed(dim)]
    ones = [d for d in dims if d < self.rank and isinstance(self.sizes[d], int) and self.sizes[d] == 1]
    return g.squeeze(self, sorted(ones))
