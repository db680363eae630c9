"""Rearranged elements: flip, roll, diagonals and triangles of matrices, sliding windows."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import product, same_size, shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("aten::flip")
def flip(g: Graph, self: Value, dims: list[int]) -> Value:
    axes = [dim % self.rank for dim in dims] if self.rank else []
    if not axes:
        return self
    return g.slice(self, axes, [-1] * len(axes), [-sys.maxsize] * len(axes), [-1] * len(axes))


@lowering("aten::roll")
def roll(g: Graph, self: Value, shifts: list[Size], dims: Sequence[int] = ()) -> Value:
    """The last `shift` slices moved to the front; without `dims`, of the flattened tensor"""
    if any(isinstance(size, int) and size == 0 for size in self.sizes):
        return self
    if not dims:
        size = product(self.sizes)
        return g.reshape(_rolled(g, g.reshape(self, [size]), 0, shifts[0]), self.sizes)
    x = self
    for shift, dim in zip(shifts, dims, strict=True):
        x = shaped(_rolled(g, x, dim % self.rank, shift), self.sizes)
    return x


def _rolled(g: Graph, x: Value, axis: int, shift: Size) -> Value:
    size = x.sizes[axis]
    # The axis may be empty, and a remainder of a division by 0 is not defined.
    cut: Size = size - shift % (size if isinstance(size, int) else torch.sym_max(size, 1))
    if isinstance(cut, int) and cut == size:
        return x
    parts = [g.slice(x, [axis], [cut], [sys.maxsize]), g.slice(x, [axis], [0], [cut])]
    return g.op("Concat", *parts, axis_i=axis)


# --- diagonals ----------------------------------------------------------------------------------------------------


def _diagonal_last(x: Value, dim1: int, dim2: int) -> list[int]:
    """The permutation of the axes that moves these two to the end."""
    first, second = dim1 % x.rank, dim2 % x.rank
    return [*(axis for axis in range(x.rank) if axis not in (first, second)), first, second]


def _diagonal_indices(g: Graph, columns: Size, offset: int, length: Size) -> Value:
    """The indices of the elements of a diagonal in the flattened matrix."""
    start = offset if offset >= 0 else -offset * columns
    if isinstance(columns, int) and isinstance(length, int) and isinstance(start, int):
        return g.const(torch.arange(length) * (columns + 1) + start)
    steps = g.op("Mul", g.iota(length), g.scalar(columns + 1, torch.int64))
    return shaped(g.op("Add", steps, g.scalar(start, torch.int64)), [length])


@lowering("aten::diagonal")
def diagonal(g: Graph, self: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The two axes are flattened, and the diagonal is gathered"""
    order = _diagonal_last(self, dim1, dim2)
    *batch, rows, columns = (self.sizes[axis] for axis in order)
    moved = g.transpose(self, order)
    flat = g.reshape(moved, [*batch, rows * columns])
    return g.op("Gather", flat, _diagonal_indices(g, columns, offset, g.out.shape[-1]), axis_i=len(batch))


@lowering("aten::diagonal_scatter")
def diagonal_scatter(g: Graph, self: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The two axes are moved to the front and flattened, and the rows of the diagonal are scattered"""
    *rest, first, second = _diagonal_last(self, dim1, dim2)
    order = [first, second, *rest]
    rows, columns, *batch = (self.sizes[axis] for axis in order)
    length = src.sizes[-1]
    if isinstance(length, int) and length == 0:
        return self
    flat = g.reshape(g.transpose(self, order), [rows * columns, *batch])
    updates = g.transpose(g.cast(src, self.dtype), [src.rank - 1, *range(src.rank - 1)])
    written = g.scatter_rows(flat, _diagonal_indices(g, columns, offset, length), updates)
    whole = g.reshape(written, [rows, columns, *batch])
    return g.transpose(whole, [order.index(axis) for axis in range(self.rank)])


@lowering("aten::diag_embed")
def diag_embed(g: Graph, self: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    """Each element of the matrices is gathered from the input, or from a zero appended to it"""
    *batch, length = self.sizes
    size = length + abs(offset)
    row, column = g.along(size, 0, 2), g.along(size, 1, 2)
    on_diagonal = g.cast(g.equal(g.op("Add", row, g.const(offset, torch.int64)), column), torch.int64)
    # Its index is the row, or below the main diagonal the column.
    element = row if offset >= 0 else column
    zero = g.scalar(length, torch.int64)
    index = g.op("Add", zero, g.op("Mul", on_diagonal, g.op("Sub", element, zero)))
    with_zero = g.op("Concat", self, g.full([*batch, 1], 0, self.dtype), axis_i=len(batch))
    made = g.op("Gather", with_zero, index, axis_i=len(batch))
    rank = len(batch) + 2
    order = list(range(len(batch)))
    for axis, source in sorted([(dim1 % rank, rank - 2), (dim2 % rank, rank - 1)]):
        order.insert(axis, source)
    return g.transpose(made, order)


@lowering("aten::tril", "aten::triu")
def triangle(g: Graph, self: Value, diagonal: Size = 0) -> Value:
    """The elements on and below (above) the diagonal, and zeros elsewhere"""
    upper = g.operator == "aten::triu"
    return g.triangle(self, diagonal, upper)


@lowering("aten::tril_indices", "aten::triu_indices")
def triangle_indices(g: Graph, row: int, col: int, offset: int = 0, dtype: torch.dtype | None = None) -> Value:
    """The rows and columns of the elements of a triangle, which are known because the sizes are"""
    indices = torch.triu_indices if g.operator == "aten::triu_indices" else torch.tril_indices
    return g.const(indices(row, col, offset, dtype=g.out.dtype))


# --- windows ------------------------------------------------------------------------------------------------------


@lowering("aten::unfold")
def unfold(g: Graph, self: Value, dimension: int, size: int, step: int) -> Value:
    """Windows of `size` along `dimension`, every `step`, as a new last axis"""
    if self.rank == 0:
        return g.expand(g.reshape(self, [1]), [size])
    axis = dimension % self.rank
    return g.transpose(
        _window_axes(g, self, axis, g.out.shape[axis], step, size, 1),
        [*range(axis + 1), *range(axis + 2, self.rank + 1), axis + 1],
    )


def _window_axes(g: Graph, x: Value, axis: int, count: Size, step: int, taps: int, dilation: int) -> Value:
    """`x` with an axis of windows and one of the elements of each instead of one axis."""
    sizes = (*x.sizes[:axis], count, taps, *x.sizes[axis + 1 :])
    in_one_each = step == taps and dilation == 1 and isinstance(count, int) and same_size(count * step, x.sizes[axis])
    if in_one_each and _dynamic(sizes) <= 1:
        return g.reshape(x, sizes)
    return shaped(g.op("Gather", x, _windows(g, count, step, taps, dilation), axis_i=axis), sizes)


def _dynamic(sizes: Sequence[Size]) -> int:
    """How many sizes are dynamic. Of two, a Reshape cannot infer one if there are no elements."""
    return sum(not isinstance(size, int) for size in sizes)


def _windows(g: Graph, count: Size, step: int, taps: int, dilation: int) -> Value:
    """The indices of the elements of each window: [window, tap]."""
    starts = g.op("Mul", g.along(count, 0, 2), g.const(step, torch.int64))
    return g.op("Add", starts, g.const(torch.arange(taps)[None, :] * dilation))


@lowering("aten::im2col")
def im2col(
    g: Graph, self: Value, kernel_size: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> Value:
    """Sliding blocks as columns: the rows and the columns of each block are gathered, then flattened"""
    whole = self if self.rank == 4 else g.unsqueeze(self, [0])
    x = g.pad(whole, [0, 0, *padding], [0, 0, *padding])
    for number, axis in ((0, 2), (1, 4)):
        extent = whole.sizes[2 + number] + 2 * padding[number]
        count = (extent - dilation[number] * (kernel_size[number] - 1) - 1) // stride[number] + 1
        x = _window_axes(g, x, axis, count, stride[number], kernel_size[number], dilation[number])
    # Now (batch, channel, row, tap row, column, tap column).
    blocks = g.transpose(x, [0, 1, 3, 5, 2, 4])
    return (
        g.reshape(blocks, g.out.shape) if _dynamic(g.out.shape) <= 1 else g.op("Reshape", blocks, g.ints(g.out.shape))
    )
