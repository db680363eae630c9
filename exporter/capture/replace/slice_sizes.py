"""The fake results of slices whose axis or bounds are dynamic.

torch compares the bounds with the size of the axis and uses the answer of the example for all sizes. Here the size of
the result is an expression that holds for all of them: `x[:n]` has min(n, size) elements, and a negative bound counts
from the end.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.capture.graph.graph import Size
from onnx_parity.exporter.capture.replace.registry import result_with_dynamic_sizes

if TYPE_CHECKING:
    from onnx_parity.exporter.capture.sizes.symbols import Symbols


@result_with_dynamic_sizes(
    "aten::slice.Tensor",
    why=("torch compares the size with the bounds and uses the answer for all sizes, although others may differ"),
)
def _part(x: torch.Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    axis = dim % x.ndim
    size: Size = x.shape[axis]
    symbols = next((each.node.shape_env for each in (size, start, end) if isinstance(each, torch.SymInt)), None)
    if symbols is None:
        return NotImplemented
    first, last = 0 if start is None else start, sys.maxsize if end is None else end
    # An empty axis is not considered, so that x[-1:] has the size 1.
    least = size if isinstance(size, int) else max(symbols.least(size), 1)
    if isinstance(first, int) and isinstance(last, int) and _is_certain(least, first, last):
        return NotImplemented
    count = _count(symbols, size, least, first, last)
    sizes: list[Size] = [*x.shape[:axis], (count + step - 1) // step, *x.shape[axis + 1 :]]
    strides: list[Size] = [*x.stride()]
    strides[axis] = strides[axis] * step
    return torch.empty_strided(sizes, strides, dtype=x.dtype, device=x.device)


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
    begin = _place(symbols, size, least, first)
    stop = size if to_the_end else _place(symbols, size, least, last)
    if symbols.never_exceeds(begin, stop):
        return stop - begin
    return _larger(stop - begin, 0)


def _place(symbols: Symbols, size: Size, least: int, place: Size) -> Size:
    """The index that a bound stands for, from 0 up to the size of the axis."""
    if isinstance(place, torch.SymInt):
        if symbols.never_exceeds(size, -place):
            return 0  # As far from the end as the axis is long, or further.
        if not symbols.never_negative(place):
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
