"""The results of operators that change the shape of a tensor, or copy or move its elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.graph.decisions import Decision
from onnx_parity.exporter.graph.graph import Size, same_shape, same_size
from onnx_parity.exporter.recording.fakes.metadata import are_contiguous, at_least_one, describe, is_surely_contiguous
from onnx_parity.exporter.recording.fakes.pointwise import broadcast, is_exotic
from onnx_parity.exporter.registry.results import Contiguous, OfAnyRank, Strided, result_of

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.symbols import Symbols

__all__ = ["strides_of_view"]

_aten = torch.ops.aten
_WHY = "torch's fake kernels import sympy, and take 0.6 ms for each call with dynamic sizes"


@result_of("aten::clone", why=_WHY)
def clone(self: torch.Tensor, *, memory_format: torch.memory_format | None = None) -> Any:
    keeps = memory_format in (None, torch.preserve_format) and are_contiguous(self)
    if not keeps and memory_format is not torch.contiguous_format:
        return NotImplemented
    return Contiguous(self.dtype, tuple(self.shape))


@result_of("aten::_to_copy", why=_WHY)
def to_copy(
    self: torch.Tensor,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    **options: object,
) -> Any:
    """Of a tensor that is cast to a dtype, and stays on its device."""
    stays = device in (None, describe(self).device) and layout in (None, torch.strided) and not options
    if dtype is None or is_exotic(dtype) or not stays or not are_contiguous(self):
        return NotImplemented
    return Contiguous(dtype, tuple(self.shape))


@result_of("aten::copy", why=_WHY)
def copy(self: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> Any:
    shape = broadcast(self, source) if are_contiguous(self, source) else None
    return Contiguous(self.dtype, shape) if shape is not None and same_shape(shape, self.shape) else NotImplemented


@result_of("aten::roll", why=_WHY)
def roll(self: torch.Tensor, shifts: Sequence[Size], dims: Sequence[int] = ()) -> Any:
    # Without axes, the elements are rolled in the order in which they lie in memory.
    fits = len(shifts) == max(len(dims), 1) and all(-self.ndim <= dim < self.ndim for dim in dims)
    return Contiguous(self.dtype, tuple(self.shape)) if fits and are_contiguous(self) else NotImplemented


@result_of(
    "aten::squeeze",
    "aten::squeeze.dim",
    "aten::squeeze.dims",
    why=(
        "torch assumes that a dynamic size is not 1. If it is 1 the result has another rank, which stays open; where "
        "an operator needs to know it, the example decides and the assumption is recorded"
    ),
    static=False,
)
def squeeze(self: torch.Tensor, dim: int | Sequence[int] | None = None) -> Strided | OfAnyRank:
    dims = (
        range(self.ndim) if dim is None else [d % max(self.ndim, 1) for d in ([dim] if isinstance(dim, int) else dim)]
    )
    kept: list[Size] = []
    strides: list[Size] = []
    stays_open = False
    for axis, (size, stride) in enumerate(zip(self.shape, self.stride(), strict=True)):
        is_one, depends = _is_one(size) if axis in dims else (False, False)
        stays_open |= depends
        if not is_one:
            kept.append(size)
            strides.append(stride)
    if stays_open:
        return OfAnyRank(self.new_empty_strided(kept, strides))
    return Strided(self.dtype, tuple(kept), tuple(strides))


def _is_one(size: Size) -> tuple[bool, bool]:
    """Whether a size is 1; and whether that is so in the example only, and the number of axes stays open."""
    if isinstance(size, int):
        return size == 1, False
    from onnx_parity.exporter.expressions.conditions import Equal
    from onnx_parity.exporter.expressions.expression import Number

    symbols: Symbols = size.node.shape_env
    question = Equal.of(size.node.expr, Number(1))
    # That of x[-1:] is 1 unless the axis is empty, which is decided at once.
    may_be_either = not (symbols.is_certain(question) or symbols.known_if_occupied(question) is not None)
    if Decision.RANKS_OF_EXAMPLE not in symbols.decisions and may_be_either:
        return symbols.holds_in_example(question), True
    return symbols.decided(question), False


@result_of("aten::im2col", why="torch 2.13's fake kernel takes its sizes from the example", static=False)
def im2col(
    self: torch.Tensor, kernel_size: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> Contiguous:
    *batch, channels, height, width = self.shape
    count: Size = 1
    for size, kernel, gap, pad, step in zip((height, width), kernel_size, dilation, padding, stride, strict=True):
        count = count * ((size + 2 * pad - gap * (kernel - 1) - 1) // step + 1)
    return Contiguous(self.dtype, (*batch, channels * kernel_size[0] * kernel_size[1], count))


# --- views -----------------------------------------------------------------------------------------------------------


@result_of(
    "aten::view",
    "aten::_unsafe_view",
    why=(
        "torch's sizes are expressions such as p // (p // 4) for the 4 of a window, and later sizes become even longer "
        "expressions; where the example makes two sizes equal, those of a transposed tensor are right for it alone"
    ),
    static=False,
)
def view(self: torch.Tensor, size: Sequence[Size]) -> Any:
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
            return Strided(self.dtype, tuple(sizes), tuple(strides))
        result: torch.Tensor = _aten.view.default(self, size)
        return result if same_shape(result.shape, sizes) else Strided(self.dtype, tuple(sizes), tuple(result.stride()))
    return Contiguous(self.dtype, tuple(sizes))


def strides_of_view(x: torch.Tensor, sizes: Sequence[Size]) -> list[Size] | None:
    """The strides of a view with these sizes; None if it is not known whether there is such a view.

    Axes that lie in memory as one are taken together, and these are split into axes of the view. A view has as many
    elements as its tensor, so that the sizes fit the axes that are left where they fit all others.
    """
    joined = [*_joined_axes(x)]
    strides: list[Size] = [1] * len(sizes)
    start, stop, below = 0, len(sizes), 0
    while below < len(joined) and (first := _first_of(sizes, stop, joined[below][0])) is not None:
        strides[first:stop] = _strides_within(sizes[first:stop], joined[below][1])
        stop, below = first, below + 1
    while len(joined) > below + 1 and (behind := _behind(sizes[:stop], start, joined[-1][0])) is not None:
        strides[start:behind] = _strides_within(sizes[start:behind], joined.pop()[1])
        start = behind
    if len(joined) == below:
        return strides if start == stop else None
    strides[start:stop] = _strides_within(sizes[start:stop], joined[below][1])
    return strides if len(joined) == below + 1 else None


def _first_of(sizes: Sequence[Size], stop: int, count: Size) -> int | None:
    """Where the sizes before `stop` begin whose product is a number, with those of 1 before them; None if none are."""
    seen: Size = 1
    while stop > 0 and (not same_size(seen, count) or same_size(sizes[stop - 1], 1)):
        stop -= 1
        seen = seen * sizes[stop]
    return stop if same_size(seen, count) else None


def _behind(sizes: Sequence[Size], start: int, count: Size) -> int | None:
    """Where the sizes from `start` on end whose product is a number; None if none are."""
    seen: Size = 1
    while start < len(sizes) and not same_size(seen, count):
        seen = seen * sizes[start]
        start += 1
    return start if same_size(seen, count) else None


def _strides_within(sizes: Sequence[Size], step: Size) -> list[Size]:
    """The strides of axes of these sizes that are together one axis with this stride."""
    strides: list[Size] = []
    room: Size = 1
    for size in reversed(sizes):
        strides.insert(0, room * step)
        room = room * at_least_one(size)
    return strides


def _joined_axes(x: torch.Tensor) -> Iterator[tuple[Size, Size]]:
    """The axes of a tensor, the last first, where those that lie in memory as one are one: their sizes and strides."""
    sizes: list[Size] = [*x.shape]
    count: Size = 1
    room: Size = 1
    step: Size = 1
    for axis in reversed(range(x.ndim)):
        if axis == x.ndim - 1:
            step = x.stride(axis)
        count, room = count * sizes[axis], room * at_least_one(sizes[axis])
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
