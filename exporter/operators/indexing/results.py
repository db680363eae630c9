"""The results of slices, whose axis or bounds may be dynamic, and of selections by indices and masks.

torch compares the bounds of a slice with the size of the axis and uses the answer of the example for all sizes. Here
the size of the result is an expression that holds for all of them: `x[:n]` has min(n, size) elements, and a negative
bound counts from the end.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.graph.graph import Size, is_broadcast, same_shape, same_size
from onnx_parity.exporter.recording.fakes.metadata import (
    are_contiguous,
    are_on_one_device,
    data_dependent_size,
    describe,
    symbols_of,
)
from onnx_parity.exporter.recording.fakes.pointwise import broadcast
from onnx_parity.exporter.registry.results import Contiguous, Strided, result_of

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.symbols import Symbols

_aten = torch.ops.aten
_PLACES = (torch.int32, torch.int64)


@result_of(
    "aten::slice.Tensor",
    why="torch compares the size with the bounds and uses the answer for all sizes, although others may differ",
    static=False,
)
def slice_(x: torch.Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    axis = dim % x.ndim
    size: Size = x.shape[axis]
    symbols = next((each.node.shape_env for each in (size, start, end) if isinstance(each, torch.SymInt)), None)
    if symbols is None:
        return NotImplemented
    first, last = 0 if start is None else start, sys.maxsize if end is None else end
    least = size if isinstance(size, int) else symbols.least(size)
    if isinstance(first, int) and isinstance(last, int) and _is_certain(least, first, last):
        begin = first if first >= 0 else size + first
        count = (size if last >= sys.maxsize else last if last >= 0 else size + last) - begin
        count = max(count, 0) if isinstance(count, int) else count
    else:
        count = _count(symbols, size, least, first, last)
    sizes: list[Size] = [*x.shape[:axis], (count + step - 1) // step, *x.shape[axis + 1 :]]
    strides: list[Size] = [*x.stride()]
    strides[axis] = strides[axis] * step
    return Strided(x.dtype, tuple(sizes), tuple(strides))


def _is_certain(least: int, first: int, last: int) -> bool:
    """Whether axes of at least this size include both bounds, and the first is surely not after the last."""
    if last >= sys.maxsize:
        return -least <= first <= least
    in_order = (first < 0) == (last < 0) or (first >= 0 and first - last <= least)
    return -least <= first <= least and -least <= last <= least and in_order


def _count(symbols: Symbols, size: Size, least: int, first: Size, last: Size) -> Size:
    """The number of indices of an axis from the first up to the last. Negative bounds count from the end."""
    to_the_end = isinstance(last, int) and last >= sys.maxsize
    if to_the_end and isinstance(first, int):
        return _smaller(size, -first) if first < 0 else _larger(size - first, 0)
    if isinstance(first, int) and isinstance(last, int) and first >= 0:
        stop = _smaller(size, last) if last >= 0 else size + last
        return stop if last >= first == 0 else _larger(stop - first, 0)
    begin = _place(symbols, size, least, first)
    stop = size if to_the_end else _place(symbols, size, least, last)
    count = stop - begin if symbols.never_exceeds(begin, stop) else _larger(stop - begin, 0)
    # Of an empty axis, n - 1 is an index before its beginning.
    return count if symbols.never_exceeds(0, begin) else _smaller(count, size)


def _place(symbols: Symbols, size: Size, least: int, place: Size) -> Size:
    """The index that a bound stands for, from 0 up to the size of the axis."""
    if isinstance(place, torch.SymInt):
        if symbols.never_exceeds(size, -place):
            return 0  # As far from the end as the axis is long, or further.
        if not symbols.never_negative(place, size):
            is_negative = _smaller(_larger(-place, 0), 1)
            place = _larger(place + size * is_negative, 0)
        return place if symbols.never_exceeds(place, size) else _smaller(place, size)
    if place < 0:
        return size + place if least >= -place else _larger(size + place, 0)
    return place if least >= place else _smaller(size, place)


def _smaller(one: Size, other: Size) -> Size:
    return min(one, other) if isinstance(one, int) and isinstance(other, int) else torch.sym_min(one, other)


def _larger(one: Size, other: Size) -> Size:
    return max(one, other) if isinstance(one, int) and isinstance(other, int) else torch.sym_max(one, other)


# --- selections -------------------------------------------------------------------------------------------------------


@result_of("aten::index.Tensor", why="torch's fake kernel computes strides with guards, 10 ms for the count of a mask")
def index(self: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> Any:
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    if len(given) == 1 and symbols_of(self) is not None:
        return _index_by_one(self, *given[0])
    # Of indices along the first axes, which are broadcast together.
    tensors = [each for _, each in given]
    if not given or len(given) < len(indices) or len(indices) > self.ndim:
        return NotImplemented
    if any(each.dtype not in _PLACES for each in tensors) or not are_on_one_device(self, *tensors):
        return NotImplemented
    is_ordered = len(indices) == self.ndim or describe(self).is_contiguous
    places = broadcast(*tensors) if is_ordered else None
    return NotImplemented if places is None else Contiguous(self.dtype, (*places, *self.shape[len(indices) :]))


def _index_by_one(x: torch.Tensor, axis: int, index: torch.Tensor) -> Any:
    """The result of one index or mask along any axes."""
    taken: list[Size] = list(index.shape)
    covered = 1
    if index.dtype is torch.bool:
        covered = index.ndim
        if not same_shape(index.shape, x.shape[axis : axis + covered]):
            return NotImplemented
        taken = [_aten.nonzero.default(index).shape[0]]
    return Contiguous(x.dtype, (*x.shape[:axis], *taken, *x.shape[axis + covered :]))


@result_of(
    "aten::take",
    why="torch asks whether there are no elements, or one, which is not known if it depends on values",
    static=False,
)
def take(self: torch.Tensor, index: torch.Tensor) -> Contiguous:
    return Contiguous(self.dtype, tuple(index.shape))


_WHY = "torch's fake kernels take 1 ms for each call with dynamic sizes"


@result_of("aten::index_select", why=_WHY)
def index_select(self: torch.Tensor, dim: int, index: torch.Tensor) -> Any:
    fits = -self.ndim <= dim < self.ndim and index.ndim == 1 and index.dtype in _PLACES
    if not fits or not are_contiguous(self, index):
        return NotImplemented
    return Contiguous(
        self.dtype, tuple(index.shape[0] if axis == dim % self.ndim else size for axis, size in enumerate(self.shape))
    )


@result_of("aten::gather", why=_WHY)
def gather(self: torch.Tensor, dim: int, index: torch.Tensor, *, sparse_grad: bool = False) -> Any:
    return Contiguous(self.dtype, tuple(index.shape)) if _goes_along(self, dim, index) else NotImplemented


@result_of("aten::scatter_add", "aten::scatter_reduce.two", why=_WHY)
def scattered(
    self: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *mode: str, include_self: bool = True
) -> Any:
    fits = _goes_along(self, dim, index) and same_shape(index.shape, source.shape) and self.dtype == source.dtype
    return Contiguous(self.dtype, tuple(self.shape)) if fits else NotImplemented


def _goes_along(x: torch.Tensor, dim: int, index: torch.Tensor) -> bool:
    """Whether an index has places along an axis for all elements along the others."""
    if index.dtype is not torch.int64 or not -x.ndim <= dim < x.ndim or index.ndim != x.ndim:
        return False
    axes = [axis for axis in range(x.ndim) if axis != dim % x.ndim]
    return (
        are_contiguous(x)
        and are_on_one_device(x, index)
        and all(same_size(x.shape[axis], index.shape[axis]) for axis in axes)
    )


@result_of("aten::select_scatter", why=_WHY)
def select_scatter(self: torch.Tensor, source: torch.Tensor, dim: int, index: Size) -> Any:
    shape = list(describe(self).shape)
    is_inside = type(index) is int and -self.ndim <= dim < self.ndim and are_contiguous(self)
    length = shape.pop(dim) if is_inside else 0
    fits = is_inside and (not isinstance(length, int) or -length <= index < length)
    fits = fits and describe(source).shape == tuple(shape) and describe(source).device == describe(self).device
    return Contiguous(self.dtype, tuple(self.shape)) if fits else NotImplemented


@result_of("aten::masked_fill.Scalar", why="torch's fake kernel takes 2 ms with dynamic sizes")
def masked_fill(self: torch.Tensor, mask: torch.Tensor, value: object) -> Any:
    shape = broadcast(self, mask) if mask.dtype is torch.bool and are_contiguous(self, mask) else None
    return NotImplemented if shape is None else Contiguous(self.dtype, shape)


@result_of("aten::masked_scatter", why="torch's kernel expands the two to plain ints", static=False)
def masked_scatter(self: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> Contiguous:
    # An operator of two tensors knows the sizes to which they are broadcast. It is not recorded.
    sizes = (torch.empty_like(self, dtype=torch.bool) | torch.empty_like(mask, dtype=torch.bool)).shape
    return Contiguous(self.dtype, tuple(sizes))


@result_of(
    "aten::masked_select",
    why="torch's bound of its length is the size of the tensor, of which a larger mask selects elements repeatedly",
    static=False,
)
def masked_select(self: torch.Tensor, mask: torch.Tensor) -> Any:
    sizes = zip(reversed(mask.shape), reversed(self.shape), strict=False)
    if mask.ndim <= self.ndim and all(is_broadcast(of_mask) or same_size(of_mask, size) for of_mask, size in sizes):
        return NotImplemented
    return Contiguous(self.dtype, (data_dependent_size(self),))
