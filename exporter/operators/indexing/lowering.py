"""Indexing: the operators that torch records for x[...] and x[...] = y."""

from __future__ import annotations

import sys

import msgspec
import torch

from onnx_parity.exporter.graph.graph import Size, is_broadcast
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.counting import counted_axis
from onnx_parity.exporter.lowering.values.shapes import never_exceeds, never_negative, product, same_size, shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering

# --- ints and slices ----------------------------------------------------------------------------------------------


@lowering("aten::select.int")
def select(g: Graph, self: Value, dim: int, index: Size) -> Value:
    axis = dim % self.rank
    size = self.sizes[axis]
    from_front = index % size if isinstance(index, int) and isinstance(size, int) else index
    return g.gather(self, g.scalar(from_front, torch.int64), axis)


@lowering("aten::slice.Tensor")
def slice_(
    g: Graph, self: Value, dim: int = 0, start: Size | None = None, end: Size | None = None, step: Size = 1
) -> Value:
    axis = dim % self.rank
    begin, stop = _bounds(self.sizes[axis], start, end)
    if same_size(step, 1) and _covers(begin, stop, self.sizes[axis]):
        return self
    return g.slice(self, [axis], [begin], [stop], [step])


@lowering("aten::select_scatter")
def select_scatter(g: Graph, self: Value, src: Value, dim: int, index: Size) -> Value:
    axis = dim % self.rank
    new = g.unsqueeze(g.cast(src, self.dtype), [axis])
    if not isinstance(index, int) and not never_negative(index):
        return _scattered(g, self, new, axis, g.ints([index]))
    start, stop = _bounds_of_length(index, 1, self.sizes[axis])
    return _spliced(g, self, new, axis, start, stop)


def _bounds_of_length(start: Size, length: Size, size: Size) -> tuple[Size, Size]:
    """The bounds of a slice of `length` elements from `start` on, as `_bounds` returns them."""
    if isinstance(start, int) and isinstance(size, int) and start < 0:
        start = start + size
    stop = start + length
    ends_axis = isinstance(start, int) and start < 0 and isinstance(stop, int) and stop == 0
    return start, sys.maxsize if ends_axis else stop


@lowering("aten::slice_scatter")
def slice_scatter(
    g: Graph, self: Value, src: Value, dim: int = 0, start: Size | None = None, end: Size | None = None, step: Size = 1
) -> Value:
    axis = dim % self.rank
    size = self.sizes[axis]
    begin, stop = _bounds(size, start, end)
    new = g.cast(src, self.dtype)
    places = None
    if isinstance(size, int) and isinstance(begin, int) and isinstance(stop, int) and isinstance(step, int):
        places = range(begin, stop, step)
    if places is not None and isinstance(length := src.sizes[axis], int):
        room = len(places)
        if room != length:
            g.unsupported(
                f"out= has size {room} along axis {axis} and the result has size {length}: give it the result's size"
            )
    if same_size(step, 1) and _covers(begin, stop, size):
        return new
    if isinstance(begin, int) and isinstance(stop, int) and (begin < 0) == (stop < 0) and begin >= stop:
        # Both bounds count from the same end, so the slice is empty for every size and nothing is written.
        return self
    if same_size(step, 1):
        splice = _spliced if _in_order(begin, stop) else _spliced_at_run_time
        return splice(g, self, new, axis, begin, stop)
    if places is None:
        indices = g.slice(g.iota(size), [0], [begin], [stop], [step])
    else:
        indices = g.const(list(places) or torch.empty(0, dtype=torch.int64), torch.int64)
    return _scattered(g, self, new, axis, indices)


def _scattered(g: Graph, x: Value, new: Value, axis: int, index: Value) -> Value:
    """`x` with the slices at some indices along `axis` replaced."""
    order = [axis, *(other for other in range(x.rank) if other != axis)]
    updates = g.transpose(new, order)
    written = g.scatter_rows(g.transpose(x, order), shaped(index, updates.sizes[:1]), updates)
    return g.transpose(written, [order.index(other) for other in range(x.rank)])


def _in_order(start: Size, stop: Size) -> bool:
    """Whether it is known that a slice does not stop before it starts, and that its bounds count from the same end."""
    if isinstance(stop, int):
        return stop == sys.maxsize or (isinstance(start, int) and (start == 0 or (start < 0) == (stop < 0)))
    return never_negative(start) and never_negative(stop - start)


def _spliced_at_run_time(g: Graph, x: Value, middle: Value, axis: int, start: Size, stop: Size) -> Value:
    """`x` with x[start:stop] replaced, whose bounds are computed at run time and may be out of order."""
    size = x.sizes[axis]
    first = g.bound(start, size)
    last = g.extreme("Max", g.bound(stop, size), first)
    front = g.between(x, axis, g.const([0]), first)
    cut = g.between(middle, axis, g.const([0]), g.op("Sub", last, first))
    return g.op("Concat", front, cut, g.between(x, axis, last, g.ints([size])), axis_i=axis)


def _spliced(g: Graph, x: Value, middle: Value, axis: int, start: Size, stop: Size) -> Value:
    """`x` with x[start:stop] along `axis` replaced."""
    parts = [middle]
    if not (isinstance(start, int) and start == 0):
        parts.insert(0, g.slice(x, [axis], [0], [start]))
    if not _covers(0, stop, x.sizes[axis]):
        parts.append(g.slice(x, [axis], [stop], [sys.maxsize]))
    return middle if len(parts) == 1 else g.op("Concat", *parts, axis_i=axis)


def _bounds(size: Size, start: Size | None, end: Size | None) -> tuple[Size, Size]:
    """The bounds of a slice, limited to the axis if its size is known. ONNX takes negative ones as Python does."""
    begin: Size = 0 if start is None else start
    stop: Size = sys.maxsize if end is None else end
    if not isinstance(begin, int) and _covers(0, stop, size) and never_exceeds(size, -begin):
        begin = 0  # As far from the end as the axis is long, or further.
    if isinstance(size, int):
        begin = min(max(begin + size if begin < 0 else begin, 0), size) if isinstance(begin, int) else begin
        if isinstance(stop, int):
            stop = min(max(stop + size if stop < 0 else stop, begin if isinstance(begin, int) else 0), size)
    return begin, stop


def _covers(begin: Size, stop: Size, size: Size) -> bool:
    """Whether it is known that the slice is the whole axis."""
    if not (isinstance(begin, int) and begin == 0):
        return False
    if isinstance(stop, int):
        return stop >= size if isinstance(size, int) else stop == sys.maxsize
    return never_exceeds(size, stop)


# --- tensors and masks --------------------------------------------------------------------------------------------


@lowering("aten::index_select")
def index_select(g: Graph, self: Value, dim: int, index: Value) -> Value:
    if self.rank == 0:
        return self
    index = g.reshape(index, [1]) if index.rank == 0 else index
    return g.gather(self, index, dim % self.rank)


class _Indexed(msgspec.Struct, frozen=True):
    """Axes that are indexed with tensors, and the indices into each; with several of them, none is negative."""

    axes: list[int]
    indices: list[Value]
    #: The shape that the index tensors broadcast to; None if it is only known at run time.
    shape: list[Size] | None
    rank: int
    #: How many axes of the result come before those of the index tensors. As in NumPy, these replace the indexed axes
    #: if those are adjacent, and come first otherwise.
    before: int


def _is_mask(index: Value) -> bool:
    return index.dtype in (torch.bool, torch.uint8)


def _indexed(g: Graph, x: Value, indices: list[Value | None]) -> _Indexed:
    tensors = [item for item in indices if item is not None]
    # A single index is given to an operator that takes negative indices itself where the opset allows it.
    alone = len(tensors) == 1
    axes: list[int] = []
    per_axis: list[Value] = []
    axis = 0
    for item in indices:
        if item is None:
            axis += 1
        elif _is_mask(item):
            per_axis.extend(_coordinates(g, item))
            axes.extend(range(axis, axis + item.rank))
            axis += item.rank
        else:
            axes.append(axis)
            per_axis.append(item if alone else g.from_front(item, x.sizes[axis]))
            axis += 1
    open_shape = any(_is_mask(item) for item in tensors)
    shape = None if open_shape else _broadcast([item.sizes for item in tensors])
    rank = max(1 if _is_mask(item) else item.rank for item in tensors)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    return _Indexed(axes, per_axis, shape, rank, before=axes[0] if together else 0)


def _coordinates(g: Graph, mask: Value) -> list[Value]:
    """The indices of the true elements of a mask, along each of its axes."""
    if mask.constant is not None:
        return [g.const(indices) for indices in mask.constant.nonzero(as_tuple=True)]
    found = g.op("NonZero", g.cast(mask, torch.bool))
    return [g.op("Gather", found, g.const(axis, torch.int64), axis_i=0) for axis in range(mask.rank)]


def _broadcast(shapes: list[tuple[Size, ...]]) -> list[Size] | None:
    """The shape that these broadcast to; None if that depends on dynamic sizes."""
    result: list[Size] = []
    for axis in range(-max(map(len, shapes)), 0):
        sizes = [shape[axis] for shape in shapes if len(shape) >= -axis and not is_broadcast(shape[axis])]
        if any(not same_size(size, sizes[0]) for size in sizes):
            return None
        result.append(sizes[0] if sizes else 1)
    return result


def _front(g: Graph, x: Value, axes: list[int]) -> tuple[Value, list[int], list[Size]]:
    """`x` with these axes moved to the front and flattened; the permutation; and the sizes of the other axes."""
    order = [*axes, *(axis for axis in range(x.rank) if axis not in axes)]
    moved = g.transpose(x, order)
    rest = list(moved.sizes[len(axes) :])
    if len(axes) == 1:
        return moved, order, rest
    sizes = [product(moved.sizes[: len(axes)]), *rest]
    return g.reshape(moved, sizes), order, rest


@lowering("aten::index.Tensor", "aten::_unsafe_index.Tensor")
def index(g: Graph, self: Value, indices: list[Value | None]) -> Value:
    """x[i, :, j]: the indexed axes are replaced by the axes of the broadcast indices"""
    tensors = [item for item in indices if item is not None]
    if len(tensors) == 1 and _is_mask(tensors[0]):
        return _compressed(g, self, tensors[0], indices.index(tensors[0]))
    in_order = _picked_in_order(g, self, indices)
    if in_order is not None:
        return in_order
    if len(tensors) == 1:
        return g.gather(self, tensors[0], indices.index(tensors[0]))
    found = _indexed(g, self, indices)
    picked = _gathered(g, self, found)
    rank = found.rank + self.rank - len(found.axes)
    front = list(range(found.rank))
    others = list(range(found.rank, rank))
    return g.transpose(picked, [*others[: found.before], *front, *others[found.before :]])


def _picked_in_order(g: Graph, x: Value, indices: list[Value | None]) -> Value | None:
    """`x` with its axes in the order of the indices, where each counts through the whole of its axis; None otherwise.

    Attention masks for several sequences are indexed so: `mask[torch.arange(n)[:, None, None], torch.arange(length)]`.
    """
    axis_of: dict[int, int] = {}
    for axis, item in enumerate(indices):
        if item is None:
            continue
        counted = None if _is_mask(item) else counted_axis(item)
        if counted is None or counted in axis_of or not same_size(item.sizes[counted], x.sizes[axis]):
            return None
        axis_of[counted] = axis
    axes = sorted(axis_of.values())
    first = axes[0]
    if axes != list(range(first, first + len(axes))):
        return None
    order = [axis_of[counted] for counted in sorted(axis_of)]
    moved = g.transpose(x, [*range(first), *order, *range(first + len(axes), x.rank)])
    rank = max(item.rank for item in indices if item is not None)
    return g.unsqueeze(moved, [first + axis for axis in range(rank) if axis - rank not in axis_of])


#: How many indices may be written into the model, 8 bytes each, one for each axis rather than one for all.
_MOST_PAIRS = 2**16


def _gathered(g: Graph, x: Value, found: _Indexed) -> Value:
    """What several indices select, with their axes first."""
    known = [index.constant for index in found.indices]
    if g.can_gather_pairs() and all(each is not None for each in known):
        pairs = torch.stack(torch.broadcast_tensors(*(each for each in known if each is not None)), -1)
        if pairs.numel() <= _MOST_PAIRS:
            order = [*found.axes, *(axis for axis in range(x.rank) if axis not in found.axes)]
            return g.op("GatherND", g.transpose(x, order), g.const(pairs))
    flat, _, _ = _front(g, x, found.axes)
    rows = g.flat_index(found.indices, [x.sizes[axis] for axis in found.axes])
    return g.op("Gather", flat, rows, axis_i=0)


def _compressed(g: Graph, x: Value, mask: Value, axis: int) -> Value:
    """x[:, mask], where the mask has one axis or more."""
    over = x.sizes[axis : axis + mask.rank]
    if mask.rank != 1:
        x = g.reshape(x, [*x.sizes[:axis], product(over), *x.sizes[axis + mask.rank :]])
    if mask.constant is not None:
        return g.op("Gather", x, g.const(mask.constant.reshape(-1).nonzero().reshape(-1)), axis_i=axis)
    flags = g.cast(mask, torch.bool)
    return g.op("Compress", x, flags if mask.rank == 1 else g.reshape(flags, [product(over)]), axis_i=axis)


@lowering("aten::index_put", "aten::_unsafe_index_put")
def index_put(g: Graph, self: Value, indices: list[Value | None], values: Value, accumulate: bool = False) -> Value:
    """x[i, :, j] = y, or += y"""
    new = g.cast(values, self.dtype)
    tensors = [item for item in indices if item is not None]
    if any(isinstance(size, int) and size == 0 for item in tensors if not _is_mask(item) for size in item.sizes):
        return self
    if len(tensors) == 1 and _is_mask(tensors[0]):
        return _put_under_mask(g, self, tensors[0], indices.index(tensors[0]), new, accumulate)
    found = _indexed(g, self, indices)
    if found.shape is None:
        g.require_opset(11, "an assignment to a data-dependent number of elements needs ONNX's ScatterND")
    flat, order, rest = _front(g, self, found.axes)
    rows = g.flat_index(found.indices, [self.sizes[axis] for axis in found.axes])
    updates = _index_first(g, new, found, len(rest))
    if found.shape is None:
        # The number of rows is data-dependent.
        updates = g.op("Expand", updates, g.op("Concat", g.op("Shape", rows), g.ints(rest), axis_i=0))
        line: list[Size] = [-1]
    else:
        updates = g.expand(updates, [*found.shape, *rest])
        line = [product(found.shape)]
    if found.rank != 1:
        rows, updates = g.reshape(rows, line), g.reshape(updates, [*line, *rest])
    written = g.scatter_rows(flat, shaped(rows, line), updates, "add" if accumulate else None)
    return _put_back(g, written, self, found.axes, order)


def _index_first(g: Graph, values: Value, found: _Indexed, rest: int) -> Value:
    """The values of x[...] = y with the axes of the index moved to the front."""
    rank = found.rank + rest
    missing = rank - values.rank
    if found.before == 0 or values.rank == 0:
        return values
    full = g.unsqueeze(values, list(range(missing)))
    index = list(range(found.before, found.before + found.rank))
    order = [*index, *range(found.before), *range(found.before + found.rank, rank)]
    return g.transpose(full, order)


def _put_back(g: Graph, written: Value, x: Value, axes: list[int], order: list[int]) -> Value:
    if len(axes) != 1:
        written = g.reshape(written, [x.sizes[axis] for axis in order])
    return g.transpose(written, [order.index(axis) for axis in range(x.rank)])


def _put_under_mask(g: Graph, x: Value, mask: Value, axis: int, values: Value, accumulate: bool) -> Value:
    """x[:, mask] = y. It is a Where if y is the same for all true elements of the mask, else y is written in order."""
    after = x.rank - axis - mask.rank
    counted = values.rank > after and not same_size(values.sizes[values.rank - after - 1], 1)
    flags = g.cast(mask, torch.bool)
    if not counted:
        spread = values
        if values.rank > after:
            # In the values, one axis stands for all axes of the mask.
            axis_of_mask = values.rank - after - 1
            sizes = [*values.sizes[:axis_of_mask], *([1] * mask.rank), *values.sizes[axis_of_mask + 1 :]]
            spread = g.reshape(values, sizes)
        if accumulate:
            spread = _sum(g, x, spread)
        choice = g.unsqueeze(flags, list(range(mask.rank, mask.rank + after)))
        return g.where(choice, spread, x)
    axes = list(range(axis, axis + mask.rank))
    flat, order, rest = _front(g, x, axes)
    found = _Indexed(axes, [], None, 1, axis)
    count = values.sizes[values.rank - after - 1]
    updates = _index_first(g, values, found, len(rest))
    updates = g.expand(updates, [count, *rest])
    line = g.reshape(flags, [flat.sizes[0]])
    if accumulate:
        updates = _sum(g, updates, g.op("Compress", flat, line, axis_i=0))
    return _put_back(g, g.scatter_masked(flat, line, updates), x, axes, order)


def _sum(g: Graph, a: Value, b: Value) -> Value:
    return g.op("Or" if a.dtype is torch.bool else "Add", a, b)
