"""Operators that choose elements by position or by value, and those that write to positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnx_parity.harness.onnx_node import Array, Types, call, definition, drawn, dtype_of, node

# --- reading ----------------------------------------------------------------------------------------------------------


@definition
def gathered(x: Array, indices: Array, axis: int) -> Array:
    return np.take(x, indices, axis)


gather = node(
    "Gather",
    gathered,
    call((3, 2), [0, 2, 1]),
    call((2, 3), [[0, 2], [1, 1]], axis=1),
    call((3, 2), [-1, 0], since=11),
    call((3, 2), 1, axis=-1),
    call((3,), 2),
    call((3, 2), np.array([], np.int64)),
    call((0, 3), [1], axis=1),
    exact=True,
)


@definition
def gathered_elements(x: Array, indices: Array, axis: int) -> Array:
    return np.take_along_axis(x, indices % x.shape[axis] if x.shape[axis] else indices, axis)


gather_elements = node(
    "GatherElements",
    gathered_elements,
    call((3, 2), [[0, 2], [1, 0]]),
    call((2, 3), [[0, 2, 2], [1, 1, 0]], axis=1),
    call((3, 2), [[-1, -3]], axis=0),
    call((2, 3), [[1], [-2]], axis=-1),
    call((3,), np.array([], np.int64)),
    call((2, 3), np.zeros((2, 0), np.int64), axis=1),
    call((1, 2, 1, 2, 3), np.array([2, 0, 1, 1], np.int64).reshape(1, 2, 1, 2, 1), axis=4),
    exact=True,
)


@definition
def gathered_nd(x: Array, indices: Array, batch_dims: int = 0) -> Array:
    batch = indices.shape[:batch_dims]
    found = [x[place][tuple(each)] for place in np.ndindex(batch)
             for each in indices[place].reshape(-1, indices.shape[-1])]  # fmt: skip
    shape = (*indices.shape[:-1], *x.shape[batch_dims + indices.shape[-1] :])
    return np.array(found, x.dtype).reshape(shape) if found else np.empty(shape, x.dtype)


gather_nd = node(
    "GatherND",
    gathered_nd,
    call((2, 3), [[0, 1], [1, 2]]),
    call((2, 3), [[1], [0]]),
    call((2, 3, 2), [[[0, 1]], [[1, 0]]]),
    call((2, 3), [[-1, -3]]),
    call((2, 3, 2), [[1], [0]], batch_dims=1),
    call((2, 3), np.empty((0, 2), np.int64)),
    exact=True,
)


@definition
def compressed(x: Array, condition: Array, axis: int | None = None) -> Array:
    return np.compress(condition, x, axis)


compress = node(
    "Compress",
    compressed,
    call((3, 2), [False, True, True], axis=0),
    call((3, 2), [False, True], axis=1),
    call((3, 2), [True, False], axis=-1, since=11),
    call((3, 2), [False, True, True, False, True]),
    call((3, 2), [False, False, False], axis=0),
    call((0, 2), np.zeros(0, bool), axis=0),
    call((1,), [True], axis=0),
    exact=True,
)


@definition
def non_zero(x: Array) -> Array:
    found = x != ("" if x.dtype.kind == "O" else 0)
    return np.array(np.nonzero(found)) if x.ndim else np.empty((0, int(found)), np.int64)


non_zero_ = node(
    "NonZero",
    non_zero,
    call(drawn((2, 3), values=(0.0, 1.0, 2.0, 0.0))),
    call(drawn((2, 2, 2), values=(0.0, 1.0, 1.0))),
    call(drawn((3,), values=(0.0,))),
    call((1,)),
    call((0, 3)),
    call(drawn((), values=(2.0,))),
)

# --- finding ----------------------------------------------------------------------------------------------------------


@definition
def top(x: Array, k: Any = None, *, axis: int, largest: int = 1, sorted: int = 1, K: Any = None) -> tuple[Array, Array]:
    """Of equal elements, that with the lower index comes first."""
    number = int(np.asarray(K if k is None else k).reshape(()))
    keys = -x.astype(np.float64) if largest else x.astype(np.float64)
    order = np.take(np.argsort(keys, axis, kind="stable"), range(number), axis)
    return np.take_along_axis(x, order, axis), order


_TIED = drawn((2, 4), values=(2.0, 3.0, 3.0, 1.0, 0.0, 4.0, 4.0, 2.0))
top_k_1 = node("TopK", top, call((2, 4), k=2), call((3, 2), k=1, axis=0), call(_TIED, k=3), before=10, exact=True)
top_k = node(
    "TopK",
    top,
    call((2, 4), [2]),
    call(_TIED, [3]),
    call(_TIED, [3], largest=0),
    call((3, 2), [2], axis=0),
    call((2, 4), [1], sorted=0),
    call((2, 4), [0]),
    call((1,), [1]),
    call((0, 4), [2]),
    since=10,
    exact=True,
)


@definition
def unique_elements(x: Array, axis: int | None = None, *, sorted: int) -> tuple[Array, ...]:
    """Each element, or each slice, once: in order, or as they come."""
    slices = (x.ravel() if axis is None else np.moveaxis(x, axis, 0)).tolist()
    firsts = [place for place, each in enumerate(slices) if each not in slices[:place]]
    if sorted:
        firsts.sort(key=lambda place: slices[place])
    places = [firsts.index(slices.index(each)) for each in slices]
    found = np.take(x if axis is not None else x.ravel(), firsts, 0 if axis is None else axis)
    counts = [places.count(place) for place in range(len(firsts))]
    return found, *(np.array(each, np.int64) for each in (firsts, places, counts))


_REPEATED = drawn((2, 4), values=(2.0, 3.0, 3.0, 1.0, 2.0, 1.0, 1.0, 2.0))
_ROWS = drawn((3, 2), values=(2.0, 1.0, 1.0, 3.0, 2.0, 1.0))
unique = node(
    "Unique",
    unique_elements,
    call(_REPEATED, outputs=[0, 1, 2, 3]),
    call((0,), outputs=[0, 1, 2, 3]),
    call(_REPEATED, sorted=0, outputs=[0, 1, 2, 3]),
    call(_ROWS, axis=0),
    call(_ROWS, axis=0, sorted=0),
    call(_ROWS, axis=-1, outputs=[0, 2]),
    call(_REPEATED, outputs=[0, 3]),
    call((1,)),
    where=lambda types: "complex" not in types["T"],
    exact=True,
)
#: In which order complex numbers would be sorted, is not said.
unique_of_complex_numbers = node(
    "Unique",
    unique_elements,
    call(_REPEATED, sorted=0, outputs=[0, 1, 2, 3]),
    where=lambda types: "complex" in types["T"],
    exact=True,
)


@definition
def one_hot(indices: Array, depth: Array, values: Array, axis: int) -> Array:
    """A negative index counts from the end, and one that is out of range has no element."""
    classes = int(np.asarray(depth).reshape(()))
    places = np.arange(classes).reshape(-1, *[1] * indices.ndim)
    whole = np.trunc(indices.astype(np.float64))
    found = np.where(np.where(whole < 0, whole + classes, whole)[None] == places, values[1], values[0])
    return np.moveaxis(found, 0, axis)


one_hot_ = node(
    "OneHot",
    one_hot,
    call(drawn((2, 2), values=(0.0, 2.0, 1.0, 2.0)), 3, drawn((2,), values=(1.0, 3.0))),
    call(drawn((2, 2), values=(0.0, 2.0, 1.0, 2.0)), 3, drawn((2,), values=(1.0, 3.0)), axis=1),
    call(drawn((3,), values=(0.0, 2.0, 1.0)), 4, drawn((2,), values=(0.0, 1.0)), axis=0),
    call((0,), [3], drawn((2,), values=(0.0, 1.0))),
    main="T3",
    usual={"T1": "int64", "T2": "int64"},
    exact=True,
)
one_hot_negative = node(
    "OneHot",
    one_hot,
    call([-1, -3, 0], [3], drawn((2,), values=(0.0, 1.0))),
    call([5, -7, 1], [3], drawn((2,), values=(0.0, 1.0))),
    call([3, -4, 2], 3, drawn((2,), values=(0.0, 1.0))),
    main="T3",
    usual={"T1": "int64", "T2": "int64"},
    where=lambda types: types["T1"] == types["T2"] == "tensor(int64)" and types["T3"] == "tensor(float)",
    since=11,
    exact=True,
)

# --- writing ----------------------------------------------------------------------------------------------------------

_COMBINED: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": max,
    "min": min,
}


@definition
def scattered_elements(x: Array, indices: Array, updates: Array, axis: int, reduction: str = "none") -> Array:
    result = x.copy()
    for place in np.ndindex(indices.shape):
        target = list(place)
        target[axis] = int(indices[place])
        result[tuple(target)] = _COMBINED[reduction](result[tuple(target)], updates[place])
    return result


_WRITTEN = (
    call((3, 3), [[1, 0, 2], [0, 2, 1]], (2, 3)),
    call((2, 4), [[1, 3]], (1, 2), axis=1),
    call((2, 4), [[-1, 0]], (1, 2), axis=-1, since=11),
    call((3,), np.array([], np.int64), (0,)),
    call((1, 2, 1, 3), np.array([2, 1], np.int64).reshape(1, 1, 1, 2), (1, 1, 1, 2), axis=3),
    call((1, 2, 1, 2, 3), np.array([2, 0, 1, 1], np.int64).reshape(1, 2, 1, 2, 1), (1, 2, 1, 2, 1), axis=4),
)


def _are_numbers(types: Types) -> bool:
    """Complex numbers are left out, because their products are not rounded alike everywhere."""
    return dtype_of(types["T"]).kind not in "Obc"


_ADDED = (
    call((3, 3), [[1, 0, 2], [1, 2, 2]], (2, 3), reduction="add"),
    call((2, 4), [[1, 1]], (1, 2), axis=1, reduction="mul"),
)
_COMPARED = (
    call((2, 4), [[1, 1]], (1, 2), axis=1, reduction="max"),
    call((2, 4), [[1, 1]], (1, 2), axis=1, reduction="min"),
)
scatter_9 = node("Scatter", scattered_elements, *_WRITTEN, exact=True)
scatter_elements = node("ScatterElements", scattered_elements, *_WRITTEN, exact=True)
scatter_elements_adding = node("ScatterElements", scattered_elements, *_ADDED, where=_are_numbers)
scatter_elements_comparing = node("ScatterElements", scattered_elements, *_COMPARED, since=18, where=_are_numbers)


@definition
def scattered_nd(x: Array, indices: Array, updates: Array, reduction: str = "none") -> Array:
    result = x.copy()
    for place in np.ndindex(indices.shape[:-1]):
        target = tuple(int(each) for each in indices[place])
        for inner in np.ndindex(result.shape[len(target) :]):
            new = updates[(*place, *inner)]
            result[(*target, *inner)] = _COMBINED[reduction](result[(*target, *inner)], new)
    return result


scatter_nd = node(
    "ScatterND",
    scattered_nd,
    call((3, 2), [[0, 1], [2, 0]], (2,)),
    call((3, 2), [[2], [0]], (2, 2)),
    call((3, 2), [[-1, -2]], (1,)),
    call((3, 2), np.empty((0, 2), np.int64), (0,)),
    exact=True,
)
scatter_nd_adding = node(
    "ScatterND",
    scattered_nd,
    call((3, 2), [[0, 1], [0, 1], [2, 0]], (3,), reduction="add"),
    call((3, 2), [[2], [2]], (2, 2), reduction="mul"),
    where=_are_numbers,
)
scatter_nd_comparing = node(
    "ScatterND",
    scattered_nd,
    call((3, 2), [[0, 1], [0, 1]], (2,), reduction="max"),
    call((3, 2), [[0, 1], [0, 1]], (2,), reduction="min"),
    since=18,
    where=_are_numbers,
)


@definition
def written_to_cache(cache: Array, update: Array, starts: Array | None = None, *, axis: int, mode: str) -> Array:
    result = np.moveaxis(cache.copy(), axis, 1) if axis % cache.ndim != 1 else cache.copy()
    news = np.moveaxis(update, axis, 1) if axis % cache.ndim != 1 else update
    for batch in range(cache.shape[0]):
        start = 0 if starts is None else int(starts[batch])
        for step in range(news.shape[1]):
            place = start + step
            result[batch, place % result.shape[1] if mode == "circular" else place] = news[batch, step]
    return np.moveaxis(result, 1, axis) if axis % cache.ndim != 1 else result


tensor_scatter = node(
    "TensorScatter",
    written_to_cache,
    call((2, 4, 2), (2, 2, 2), [1, 2]),
    call((2, 4, 2), (2, 2, 2)),
    call((0, 4, 2), (0, 2, 2)),
    call((2, 1, 4, 2), (2, 1, 1, 2), [3, 0]),
    call((2, 4, 2), (2, 3, 2), [3, 2], mode="circular"),
    call((2, 4), (2, 2), [1, 0], axis=1),
    exact=True,
)
