"""Indexing: x[...] and x[...] = y, in the operators that torch makes of them."""

from __future__ import annotations

import sys

import torch

from exporter.capture.graph import Size
from exporter.lowering.builder import Graph
from exporter.lowering.registry import lowering
from exporter.lowering.values import Operand, Value


@lowering("aten::select.int")
def select(g: Graph, self: Value, dim: int, index: Size) -> Value:
    axis = dim % self.rank
    return g.op("Gather", self, g.scalar(_from_start(index, self.sizes[axis]), torch.int64), axis_i=axis)


@lowering("aten::slice.Tensor")
def slice_(
    g: Graph, self: Value, dim: int = 0, start: Size | None = None, end: Size | None = None, step: int = 1
) -> Value:
    axis = dim % self.rank
    begin, stop = _bounds(self.sizes[axis], start, end)
    if _covers(begin, stop, self.sizes[axis]) and step == 1:
        return self
    return g.slice(self, [axis], [begin], [stop], [step])


@lowering("aten::narrow")
def narrow(g: Graph, self: Value, dim: int, start: Size, length: Size) -> Value:
    axis = dim % self.rank
    begin = _from_start(start, self.sizes[axis])
    return g.slice(self, [axis], [begin], [begin + length])


@lowering("aten::select_scatter")
def select_scatter(g: Graph, self: Value, src: Value, dim: int, index: Size) -> Value:
    axis = dim % self.rank
    start = _from_start(index, self.sizes[axis])
    return _spliced(g, self, g.unsqueeze(g.cast(src, self.dtype), [axis]), axis, start, start + 1)


@lowering("aten::slice_scatter")
def slice_scatter(
    g: Graph, self: Value, src: Value, dim: int = 0, start: Size | None = None, end: Size | None = None, step: int = 1
) -> Value:
    axis = dim % self.rank
    size = self.sizes[axis]
    begin, stop = _bounds(size, start, end)
    src = g.cast(src, self.dtype)
    if step == 1:
        return src if _covers(begin, stop, size) else _spliced(g, self, src, axis, begin, stop)
    if not (isinstance(size, int) and isinstance(begin, int) and isinstance(stop, int)):
        g.unsupported("writing to a slice with a step over an axis that varies")
    # Behind the old elements come the new ones; each place then picks its own.
    picks = list(range(size))
    for number, place in enumerate(range(begin, stop, step)):
        picks[place] = size + number
    return g.op("Gather", g.op("Concat", self, src, axis_i=axis), g.const(picks, torch.int64), axis_i=axis)


def _spliced(g: Graph, x: Value, middle: Value, axis: int, start: Size, stop: Size) -> Value:
    """`x` with everything from `start` to `stop` along `axis` replaced."""
    parts = [middle]
    if not (isinstance(start, int) and start == 0):
        parts.insert(0, g.slice(x, [axis], [0], [start]))
    if not _covers(0, stop, x.sizes[axis]):
        parts.append(g.slice(x, [axis], [stop], [sys.maxsize]))
    return middle if len(parts) == 1 else g.op("Concat", *parts, axis_i=axis)


def _from_start(index: Size, size: Size) -> Size:
    return index if not isinstance(index, int) or index >= 0 else index + size


def _bounds(size: Size, start: Size | None, end: Size | None) -> tuple[Size, Size]:
    """Where a slice begins and stops, from the front, inside the axis where that is known."""
    begin = _from_start(0 if start is None else start, size)
    stop = sys.maxsize if end is None else end
    if isinstance(stop, int) and stop < 0:
        stop = stop + size
    if isinstance(size, int):
        begin = min(max(begin, 0), size) if isinstance(begin, int) else begin
        stop = min(max(stop, begin), size) if isinstance(stop, int) and isinstance(begin, int) else stop
    return begin, stop


def _covers(begin: Size, stop: Size, size: Size) -> bool:
    if not (isinstance(begin, int) and begin == 0):
        return False
    if isinstance(stop, int):
        return stop >= size if isinstance(size, int) else stop == sys.maxsize
    return not isinstance(size, int) and bool(stop.node.expr == size.node.expr)


@lowering("aten::index_select")
def index_select(g: Graph, self: Value, dim: int, index: Value) -> Value:
    if self.rank == 0:
        return self
    return g.op("Gather", self, index, axis_i=dim % self.rank)


@lowering("aten::index.Tensor")
def index(g: Graph, self: Value, indices: list[Value | None]) -> Value:
    """x[i, :, j]: the axes with an index give way to the shape of the broadcast indices"""
    axes, places = _indexed(g, self, indices)
    if len(axes) == 1:
        return g.op("Gather", self, places[0], axis_i=axes[0])
    first = [*axes, *(axis for axis in range(self.rank) if axis not in axes)]
    x = g.transpose(self, first)
    rest = [self.sizes[axis] for axis in first[len(axes) :]]
    picked = g.op("Gather", g.reshape(_shaped(x, self, first), [-1, *rest]), _linear(g, self, axes, places), axis_i=0)
    return _moved(g, picked, axes, len(g.out.shape), len(rest))


def _shaped(x: Value, source: Value, order: list[int]) -> Value:
    x.shape = tuple(source.sizes[axis] for axis in order)
    return x


def _moved(g: Graph, picked: Value, axes: list[int], rank: int, rest: int) -> Value:
    """Axes that stood together are replaced where they stood; axes apart come first, as NumPy has it."""
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    if not together or axes[0] == 0:
        return picked
    front = rank - rest
    order = [*range(front, front + axes[0]), *range(front), *range(front + axes[0], rank)]
    return g.transpose(picked, order)


def _indexed(g: Graph, x: Value, indices: list[Value | None]) -> tuple[list[int], list[Value]]:
    """The axes that are indexed and the places along each, masks turned into places, negative ones counted from the end."""
    axes: list[int] = []
    places: list[Value] = []
    axis = 0
    for item in indices:
        if item is None:
            axis += 1
            continue
        if item.dtype in (torch.bool, torch.uint8):
            coordinates = g.op("NonZero", g.cast(item, torch.bool))
            for number in range(item.rank):
                axes.append(axis + number)
                places.append(g.op("Gather", coordinates, g.const(number, torch.int64), axis_i=0))
            axis += item.rank
            continue
        axes.append(axis)
        places.append(_not_negative(g, item, x.sizes[axis]))
        axis += 1
    return axes, places


def _not_negative(g: Graph, index: Value, size: Size) -> Value:
    if index.constant is not None:
        known = index.constant.to(torch.int64)
        if bool((known >= 0).all()):
            return g.cast(index, torch.int64)
        if isinstance(size, int):
            return g.const(torch.where(known < 0, known + size, known))
    index = g.cast(index, torch.int64)
    wrapped = g.op("Add", index, g.scalar(size, torch.int64))
    return g.where(g.less(index, g.const(0, torch.int64)), wrapped, index)


def _linear(g: Graph, x: Value, axes: list[int], places: list[Value]) -> Value:
    """One index into the indexed axes taken together."""
    total = places[0]
    for axis, place in zip(axes[1:], places[1:], strict=True):
        total = g.op("Add", g.op("Mul", total, g.scalar(x.sizes[axis], torch.int64)), place)
    return total


@lowering("aten::index_put")
def index_put(g: Graph, self: Value, indices: list[Value | None], values: Value, accumulate: bool = False) -> Value:
    values = g.cast(values, self.dtype)
    mask = indices[0]
    if len(indices) == 1 and mask is not None and mask.dtype is torch.bool and values.rank == 0 and not accumulate:
        return g.where(g.unsqueeze(mask, list(range(mask.rank, self.rank))), values, self)
    if g.opset < 11:
        g.unsupported("assignment to places picked by tensors", since=11)
    if accumulate and g.opset < 16:
        g.unsupported("assignment that accumulates", since=16)
    axes, places = _indexed(g, self, indices)
    if axes != list(range(len(axes))):
        g.unsupported("assignment to places picked by tensors along later axes")
    shape = _broadcast_shape(g, indices, places)
    if len(places) > 1 or any(place.shape != tuple(shape) for place in places):
        places = [g.expand(place, shape) for place in places]
    coordinates = g.op("Concat", *[g.unsqueeze(place, [len(shape)]) for place in places], axis_i=len(shape))
    updates = g.expand(values, [*shape, *self.sizes[len(axes) :]])
    return g.op("ScatterND", self, coordinates, updates, reduction_s="add" if accumulate else None)


def _broadcast_shape(g: Graph, indices: list[Value | None], places: list[Value]) -> list[Size]:
    tensors = [item for item in indices if item is not None]
    if any(item.dtype in (torch.bool, torch.uint8) for item in tensors):
        g.unsupported("assignment of a tensor under a mask")
    return list(torch.broadcast_shapes(*[item.sizes for item in tensors]))  # type: ignore[arg-type]


@lowering("aten::masked_fill")
def masked_fill(g: Graph, self: Value, mask: Value, value: Operand) -> Value:
    filler = g.cast(value, self.dtype) if isinstance(value, Value) else g.scalar(value, self.dtype)
    return g.where(mask, filler, self)
