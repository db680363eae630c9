"""Shapes: views, permutations, joining and splitting. No values change."""

from __future__ import annotations

import torch

from exporter.capture.graph import Size
from exporter.lowering.builder import Graph
from exporter.lowering.registry import lowering
from exporter.lowering.values import Value


@lowering(
    "aten::clone", "aten::detach", "aten::alias", "aten::lift_fresh", "aten::lift_fresh_copy", "aten::contiguous",
    "aten::positive", "aten::resolve_conj", "aten::resolve_neg",
)  # fmt: skip
def same(g: Graph, self: Value) -> Value:
    return self


@lowering("aten::_to_copy", "aten::to", "prims::convert_element_type")
def to_copy(g: Graph, self: Value, dtype: torch.dtype | None = None) -> Value:
    return g.cast(self, g.out.dtype)


@lowering("aten::copy")
def copy(g: Graph, self: Value, src: Value) -> Value:
    x = g.cast(src, g.out.dtype)
    return x if x.shape == self.shape else g.expand(x, g.out.shape)


@lowering("aten::copy_")
def copy_(g: Graph, self: Value, src: Value) -> Value:
    return copy(g, self, src)


@lowering("aten::view", "aten::_unsafe_view", "aten::reshape", "aten::_reshape_alias")
def view(g: Graph, self: Value, size: list[Size], stride: object = None) -> Value:
    sizes = g.out.shape
    if sizes == self.shape and all(isinstance(s, int) for s in sizes):
        return self
    flattens = len(sizes) == 2 and self.rank > 2 and _is_same(self.sizes[0], sizes[0])
    if flattens and all(isinstance(s, int) and s > 0 for s in self.sizes[1:]):
        return g.op("Flatten", self, axis_i=1)
    return g.reshape(self, sizes)


def _is_same(a: Size, b: Size) -> bool:
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return bool(a.node.expr == b.node.expr)


@lowering("aten::t", "aten::numpy_T")
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
def expand(g: Graph, self: Value, size: list[Size], implicit: bool = False) -> Value:
    return self if self.shape == g.out.shape else g.expand(self, g.out.shape)


@lowering("aten::unsqueeze")
def unsqueeze(g: Graph, self: Value, dim: int) -> Value:
    return g.unsqueeze(self, [dim % (self.rank + 1)])


@lowering("aten::squeeze")
def squeeze(g: Graph, self: Value, dim: int | list[int] | None = None) -> Value:
    if dim is None:
        dims = list(range(self.rank))
    else:
        dims = [d % max(self.rank, 1) for d in (dim if isinstance(dim, list) else [dim])]
    ones = [d for d in dims if d < self.rank and isinstance(self.sizes[d], int) and self.sizes[d] == 1]
    return g.squeeze(self, sorted(ones))


@lowering("aten::cat", "aten::concat", "aten::concatenate")
def cat(g: Graph, tensors: list[Value], dim: int = 0) -> Value:
    # torch lets empty vectors stand among tensors of any rank.
    rank = len(g.out.shape)
    parts = [g.cast(x, g.out.dtype) for x in tensors if not (x.rank == 1 and rank != 1 and x.sizes[0] == 0)]
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis_i=dim % rank)


@lowering("aten::stack")
def stack(g: Graph, tensors: list[Value], dim: int = 0) -> Value:
    axis = dim % len(g.out.shape)
    return g.op("Concat", *[g.unsqueeze(g.cast(x, g.out.dtype), [axis]) for x in tensors], axis_i=axis)


@lowering(
    "aten::split.Tensor", "aten::split_with_sizes", "aten::chunk", "aten::unsafe_split.Tensor", "aten::split.sizes"
)
def split(g: Graph, self: Value, dim: int = 0, **_sizes: object) -> list[Value]:
    axis = dim % self.rank
    sizes = [output.shape[axis] for output in g.node.outputs if output is not None]
    return g.split(self, axis, sizes)


@lowering("aten::unbind.int")
def unbind(g: Graph, self: Value, dim: int = 0) -> list[Value]:
    axis = dim % self.rank
    return [g.squeeze(part, [axis]) for part in g.split(self, axis, [1] * len(g.node.outputs))]


@lowering("aten::unfold")
def unfold(g: Graph, self: Value, dimension: int, size: int, step: int) -> Value:
    """Windows of `size` along `dimension`, every `step`, as a new last axis"""
    if self.rank == 0:
        return g.expand(g.unsqueeze(self, [0]), [size])
    axis = dimension % self.rank
    count = g.out.shape[axis]
    if not isinstance(count, int):
        return _unfold_by_shifts(g, self, axis, size, step, count)
    windows = torch.arange(count)[:, None] * step + torch.arange(size)[None, :]
    picked = g.op("Gather", self, g.const(windows), axis_i=axis)
    order = [*range(axis + 1), *range(axis + 2, self.rank + 1), axis + 1]
    return g.transpose(picked, order)


def _unfold_by_shifts(g: Graph, x: Value, axis: int, size: int, step: int, count: Size) -> Value:
    """Over an axis that varies: element i of every window is a slice that starts at i."""
    parts = [g.slice(x, [axis], [i], [i + (count - 1) * step + 1], [step]) for i in range(size)]
    return g.op("Concat", *[g.unsqueeze(part, [x.rank]) for part in parts], axis_i=x.rank)


@lowering("aten::im2col")
def im2col(
    g: Graph, self: Value, kernel_size: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> Value:
    """Sliding blocks as columns: pad, gather rows and columns of each block, flatten"""
    x = self if self.rank == 4 else g.unsqueeze(self, [0])
    sizes = self.sizes if self.rank == 4 else (1, *self.sizes)
    x = g.pad(x, [0, 0, *padding], [0, 0, *padding])
    for number, axis in ((0, 2), (1, 4)):
        extent = sizes[2 + number] + 2 * padding[number]
        count = (extent - dilation[number] * (kernel_size[number] - 1) - 1) // stride[number] + 1
        if not isinstance(count, int):
            g.unsupported("the sliding blocks of an axis that varies")
        taps = torch.arange(kernel_size[number])[:, None] * dilation[number]
        starts = torch.arange(count)[None, :] * stride[number]
        x = g.op("Gather", x, g.const(taps + starts), axis_i=axis)
    # Now (batch, channel, tap row, row, tap column, column).
    return g.reshape(g.transpose(x, [0, 1, 2, 4, 3, 5]), g.out.shape)
