"""Reductions: an axis, or several, become one element each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnx_parity.harness.onnx_node import Array, Call, Definition, call, definition, drawn, node


def _over_axes(reduce: Callable[..., Any], *, widens: bool = True) -> Definition:
    """Without axes, all are reduced, or none if `noop_with_empty_axes` is set."""

    def reduce_axes(
        x: Array, axes: Sequence[int] | None = None, *, keepdims: int, noop_with_empty_axes: int = 0
    ) -> Array:
        chosen = tuple(int(axis) for axis in axes) if axes is not None and len(axes) else None
        if chosen is None:
            chosen = () if noop_with_empty_axes else tuple(range(x.ndim))
        wide = x if not widens or x.dtype.kind in "bf" or x.dtype == np.uint64 else x.astype(np.int64)
        return np.asarray(reduce(wide, axis=chosen, keepdims=bool(keepdims)))

    reduce_axes.__qualname__ = reduce.__name__
    return Definition(reduce_axes)


#: Of tensors with elements, which every reduction has a result for.
_FILLED: tuple[Call, ...] = (
    call((2, 3)),
    call((2, 3), keepdims=0),
    call((2, 3, 4), axes=[1]),
    call((2, 3, 4), axes=[0, -1], keepdims=0),
    call((2, 3), axes=[1], keepdims=1),
    call((2, 1), axes=[1]),
    call((1,), axes=[0], keepdims=0),
    call((), keepdims=0),
    call((0, 3), axes=[1]),
)
#: Of nothing, whose reduction is the neutral element of the operation.
_EMPTY: tuple[Call, ...] = (call((0, 3), axes=[0]), call((2, 0), axes=[1], keepdims=0))
#: Axes as an input without elements, or left out, and kept.
_NOOP: tuple[Call, ...] = (
    call((2, 3), axes=np.array([], np.int64), noop_with_empty_axes=1),
    call((2, 3), noop_with_empty_axes=1),
    call((2, 3), axes=np.array([], np.int64), noop_with_empty_axes=0),
)


def largest(x: Array, **axes: Any) -> Any:
    """Of nothing, the least number of the type."""
    return np.max(x, initial=_bounds(x)[0], **axes)


def smallest(x: Array, **axes: Any) -> Any:
    """Of nothing, the largest number of the type."""
    return np.min(x, initial=_bounds(x)[1], **axes)


def _bounds(x: Array) -> tuple[Any, Any]:
    if x.dtype.kind == "b":
        return False, True
    return (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max) if x.dtype.kind in "iu" else (-np.inf, np.inf)


def l1(x: Array, **axes: Any) -> Any:
    return np.sum(np.abs(x), **axes)


def l2(x: Array, **axes: Any) -> Any:
    return np.sqrt(np.sum(np.square(x.astype(np.float64)), **axes))


def sum_of_squares(x: Array, **axes: Any) -> Any:
    return np.sum(x * x, **axes)


def log_of_sum(x: Array, **axes: Any) -> Any:
    return np.log(np.sum(x.astype(np.float64), **axes))


def log_of_sum_of_exponentials(x: Array, **axes: Any) -> Any:
    return np.log(np.sum(np.exp(x.astype(np.float64)), **axes))


def mean_of(x: Array, **axes: Any) -> Any:
    """The mean of integers is rounded toward 0, as their quotient is."""
    wide = x.astype(np.float64)
    # An axis without elements has the mean NaN, and no reduction divides by 1.
    mean = np.sum(wide, **axes) / np.sum(np.ones_like(wide), **axes)
    return np.trunc(mean) if x.dtype.kind in "iuO" else mean


reduce_sum = node("ReduceSum", _over_axes(np.sum), *_FILLED, *_EMPTY, *_NOOP)
reduce_mean = node("ReduceMean", _over_axes(mean_of), *_FILLED, *_NOOP)
reduce_prod = node("ReduceProd", _over_axes(np.prod), *_FILLED, *_EMPTY, *_NOOP, low=1.0, high=2.9)
reduce_max = node("ReduceMax", _over_axes(largest, widens=False), *_FILLED, *_EMPTY, *_NOOP, exact=True)
reduce_min = node("ReduceMin", _over_axes(smallest, widens=False), *_FILLED, *_EMPTY, *_NOOP, exact=True)
reduce_l1 = node("ReduceL1", _over_axes(l1), *_FILLED, *_EMPTY, call((2, 3), axes=[0]))
reduce_l1_noop = node("ReduceL1", _over_axes(l1), *_NOOP, low=1.0)
reduce_l2 = node("ReduceL2", _over_axes(l2), *_FILLED, *_EMPTY, *_NOOP, low=1.0, integers=False)
#: Integers whose root of the sum of squares is one.
reduce_l2_integers = node(
    "ReduceL2", _over_axes(l2), call(drawn((2, 2), values=(3.0, 4.0, 4.0, 3.0)), axes=[1]),
    where=lambda types: "int" in types["T"],
)  # fmt: skip
reduce_sum_square = node("ReduceSumSquare", _over_axes(sum_of_squares), *_FILLED, *_EMPTY, *_NOOP)
reduce_log_sum = node(
    "ReduceLogSum", _over_axes(log_of_sum), *_FILLED, *_EMPTY, *_NOOP, low=2.0, high=9.0, integers=False
)
reduce_log_sum_exp = node(
    "ReduceLogSumExp", _over_axes(log_of_sum_of_exponentials), *_FILLED, *_EMPTY, *_NOOP, integers=False
)
#: A sum of 1, whose logarithm is 0 however it is rounded.
reduce_log_sum_integers = node(
    "ReduceLogSum", _over_axes(log_of_sum), call(drawn((2, 2), values=(1.0, 0.0)), axes=[1]),
    where=lambda types: "int" in types["T"],
)  # fmt: skip
reduce_log_sum_exp_integers = node(
    "ReduceLogSumExp", _over_axes(log_of_sum_of_exponentials), call(drawn((2, 1), values=(0.0,)), axes=[1]),
    where=lambda types: "int" in types["T"],
)  # fmt: skip


@definition
def first_largest(x: Array, axis: int, keepdims: int, select_last_index: int = 0) -> Array:
    return _first(np.argmax, x, axis, keepdims, select_last_index)


@definition
def first_smallest(x: Array, axis: int, keepdims: int, select_last_index: int = 0) -> Array:
    return _first(np.argmin, x, axis, keepdims, select_last_index)


def _first(find: Callable[..., Any], x: Array, axis: int, keepdims: int, last: int) -> Array:
    found = find(np.flip(x, axis) if last else x, axis=axis, keepdims=bool(keepdims))
    return np.asarray(x.shape[axis] - 1 - found if last else found)


_TIED = drawn((2, 4), values=(2.0, 3.0, 3.0, 1.0, 1.0, 1.0, 4.0, 4.0))
_FOUND = (
    call(_TIED, axis=1),
    call(_TIED, axis=1, select_last_index=1),
    call((2, 3)),
    call((2, 3, 2), axis=-2, keepdims=0),
    call((1,), axis=0),
    call((0, 3), axis=1),
)
arg_max = node("ArgMax", first_largest, *_FOUND)
arg_min = node("ArgMin", first_smallest, *_FOUND)
