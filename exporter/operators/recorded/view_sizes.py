"""The fake results of slices whose axis or bounds are dynamic, and of views with dynamic sizes.

torch compares the bounds with the size of the axis and uses the answer of the example for all sizes. Here the size of
the result is an expression that holds for all of them: `x[:n]` has min(n, size) elements, and a negative bound counts
from the end.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.graph.graph import Size, same_shape, same_size
from onnx_parity.exporter.registry.recorded import result_with_dynamic_sizes

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.symbols import Symbols

__all__ = ["is_surely_contiguous", "strides_of_view"]

_aten = torch.ops.aten


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
        begin = first if first >= 0 else size + first
        count = (size if last >= sys.maxsize else last if last >= 0 else size + last) - begin
        count = max(count, 0) if isinstance(count, int) else count
    else:
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


# --- views -----------------------------------------------------------------------------------------------------------


@result_with_dynamic_sizes(
    "aten::view",
    "aten::_unsafe_view",
    why=(
        "torch's sizes are expressions such as p // (p // 4) for the 4 of a window, and later sizes become even longer "
        "expressions; where the example makes two sizes equal, those of a transposed tensor are right for it alone"
    ),
)
def _viewed(self: torch.Tensor, size: Sequence[Size]) -> Any:
    inferred = [axis for axis, each in enumerate(size) if isinstance(each, int) and each < 0]
    if len(inferred) > 1:
        return NotImplemented
    sizes = [*size]
    if inferred:
        # torch's own asks whether the shape is the same as before, which for some sizes it is.
        count, known = math.prod(self.shape), math.prod([*size[: inferred[0]], *size[inferred[0] + 1 :]])
        if isinstance(count, int) or (isinstance(known, int) and known == 0):
            return NotImplemented
        symbols: Symbols = count.node.shape_env
        whole = count // known
        sizes[inferred[0]] = symbols.size_of(whole.node.expr) if isinstance(whole, torch.SymInt) else whole
    elif not _may_hold(math.prod(self.shape), math.prod(sizes)):
        return NotImplemented  # torch's own says why not.
    if not is_surely_contiguous(self):
        strides = strides_of_view(self, sizes)
        if strides is not None:
            return torch.empty_strided(sizes, strides, dtype=self.dtype, device=self.device)
        result: torch.Tensor = _aten.view.default(self, size)
        if same_shape(result.shape, sizes):
            return result
    return torch.empty(sizes, dtype=self.dtype, device=self.device)


def strides_of_view(x: torch.Tensor, sizes: Sequence[Size]) -> list[Size] | None:
    """The strides of a view with these sizes; None if it is not known whether there is such a view.

    Axes that lie in memory as one are taken together, and these are split into axes of the view.
    """
    strides: list[Size] = []
    place = len(sizes) - 1
    for count, step in _joined_axes(x):
        seen: Size = 1
        room: Size = 1
        while place >= 0 and (not same_size(seen, count) or same_size(sizes[place], 1)):
            strides.insert(0, room * step)
            seen, room = seen * sizes[place], room * _larger(sizes[place], 1)
            place -= 1
        if not same_size(seen, count):
            return None
    return strides if place < 0 else None


def _joined_axes(x: torch.Tensor) -> Iterator[tuple[Size, Size]]:
    """The axes of a tensor, the last first, where those that lie in memory as one are one: their sizes and strides."""
    sizes: list[Size] = [*x.shape]
    count: Size = 1
    room: Size = 1
    step: Size = 1
    for axis in reversed(range(x.ndim)):
        if axis == x.ndim - 1:
            step = x.stride(axis)
        count, room = count * sizes[axis], room * _larger(sizes[axis], 1)
        if axis and (same_size(sizes[axis - 1], 1) or _is_one_of(x.stride(axis - 1), count * step, room * step)):
            continue
        yield count, step
        if axis:
            count, room, step = 1, 1, x.stride(axis - 1)


def _is_one_of(stride: Size, *others: Size) -> bool:
    return any(same_size(stride, other) for other in others)


def _may_hold(elements: Size, wanted: Size) -> bool:
    """Whether a view may have as many elements as its tensor, as far as numbers or one size of an input decide it.

    A batch of b rows of 4 is viewed as (2, 4) only where b is 2: the comparison records that as an assumption. Other
    expressions over sizes are not compared.
    """
    if isinstance(elements, int):
        return not isinstance(wanted, int) or elements == wanted
    from onnx_parity.exporter.expressions.expression import expression_of
    from onnx_parity.exporter.expressions.polynomials import is_polynomial, reduced

    count = wanted if isinstance(wanted, int) else wanted.node.expr
    symbols: Symbols = elements.node.shape_env
    size, divisor = reduced(elements.node.expr, expression_of(count or 1))
    decides = len(size.free_symbols) < 2 and divisor.is_Integer and is_polynomial(size) and symbols.is_of_inputs(size)
    return not decides or bool(symbols.size_of(size) == int(divisor))  # type: ignore[call-overload]


def is_surely_contiguous(x: torch.Tensor) -> bool:
    expected: Size = 1
    sizes: list[Size] = [*x.shape]
    for size, stride in zip(reversed(sizes), reversed(x.stride()), strict=True):
        if not same_size(stride, expected) and not same_size(size, 1):
            return False
        expected = expected * (max(size, 1) if isinstance(size, int) else torch.sym_max(size, 1))
    return True
