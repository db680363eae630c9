"""Reductions over axes: sums, means, maxima and minima and their indices, any and all, norms, variances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import product
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.recording.fakes.metadata import are_contiguous
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.results import Contiguous, result_of

Dims = int | list[int] | None


def axes_of(x: Value, dim: Dims) -> list[int] | None:
    """The axes of `dim`, none of them negative; None for all axes, which an empty list means too."""
    if dim is None or (isinstance(dim, list) and not dim):
        return None
    dims = dim if isinstance(dim, list) else [dim]
    return sorted(d % max(x.rank, 1) for d in dims)


def _reduce(
    g: Graph,
    how: Literal["Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "LogSumExp", "SumSquare"],
    x: Value,
    dim: Dims,
    keepdim: bool = False,
) -> Value:
    """A reduction. torch takes dim 0 of a 0-d tensor, so it is reshaped to a vector of one element."""
    if x.rank == 0:
        return g.reduce(how, g.reshape(x, [1]), [0], keepdim=False)
    return g.reduce(how, x, axes_of(x, dim), keepdim)


def _count(x: Value, dim: Dims) -> Size:
    """How many elements are reduced to one."""
    axes = axes_of(x, dim)
    return product(x.sizes if axes is None or x.rank == 0 else [x.sizes[axis] for axis in axes])


@lowering("aten::sum")
def sum_(g: Graph, self: Value, dim: Dims = None, keepdim: bool = False, dtype: object = None) -> Value:
    return _reduce(g, "Sum", g.cast(self, g.out.dtype), dim, keepdim)


@lowering("aten::prod")
def prod(g: Graph, self: Value, dim: Dims = None, keepdim: bool = False, dtype: object = None) -> Value:
    return _reduce(g, "Prod", g.cast(self, g.out.dtype), dim, keepdim)


@lowering("aten::mean")
def mean(g: Graph, self: Value, dim: Dims = None, keepdim: bool = False, dtype: object = None) -> Value:
    x = g.cast(self, g.out.dtype)
    # Over one axis onnxruntime would not find a norm of a sequence of features.
    is_pooling = keepdim and axes_of(x, dim) == list(range(2, max(x.rank, 4)))
    if is_pooling and not g.may_be_empty(x.sizes[1:]) and g.has_kernel("GlobalAveragePool", x.dtype):
        return g.op("GlobalAveragePool", x)
    return _mean(g, x, dim, keepdim)


def _mean(g: Graph, x: Value, dim: Dims, keepdim: bool) -> Value:
    count = _count(x, dim)
    if isinstance(count, int) and count > 0:
        return _reduce(g, "Mean", x, dim, keepdim)
    # ONNX does not specify the mean of an empty axis, and runtimes return 0. In torch it is 0 / 0.
    total = _reduce(g, "Sum", g.accumulating(x), dim, keepdim)
    return g.cast(g.op("Div", total, g.scalar(count, total.dtype)), x.dtype)


# --- max, min ---------------------------------------------------------------------------------------------------------


@lowering("aten::amax", "aten::max.default")
def amax(g: Graph, self: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _extreme(g, "Max", self, dim, keepdim)


@lowering("aten::amin", "aten::min.default")
def amin(g: Graph, self: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _extreme(g, "Min", self, dim, keepdim)


def _extreme(g: Graph, which: Literal["Max", "Min"], x: Value, dim: Dims, keepdim: bool) -> Value:
    return x if x.rank == 0 else g.extreme_over(which, x, axes_of(x, dim), keepdim)


@lowering("aten::aminmax")
def aminmax(g: Graph, self: Value, dim: int | None = None, keepdim: bool = False) -> tuple[Value, Value]:
    return amin(g, self, dim, keepdim), amax(g, self, dim, keepdim)


@lowering("aten::max.dim", "aten::min.dim")
def extreme_with_index(g: Graph, self: Value, dim: int, keepdim: bool = False) -> tuple[Value | None, Value | None]:
    which: Literal["Max", "Min"] = "Max" if g.operator == "aten::max" else "Min"
    value = _extreme(g, which, self, dim, keepdim) if g.is_used(0) else None
    return value, _index_of_extreme(g, f"Arg{which}", self, dim, keepdim) if g.is_used(1) else None


@lowering("aten::argmax")
def argmax(g: Graph, self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _index_of_extreme(g, "ArgMax", self, dim, keepdim)


@lowering("aten::argmin")
def argmin(g: Graph, self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _index_of_extreme(g, "ArgMin", self, dim, keepdim)


def _index_of_extreme(g: Graph, op: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    """The index of the first of equal maxima or minima."""
    if x.rank == 0:
        return g.const(0, torch.int64)
    if x.dtype.is_floating_point and not (dim is not None and _is_softmax(x, dim % x.rank)):
        x = _with_nan_as_infinity(g, x, op == "ArgMax")
    if dim is None:
        index = g.op(op, g.reshape(x, [_count(x, None)]), axis_i=0, keepdims_i=keepdim)
        return g.reshape(index, [1] * x.rank) if keepdim else index
    return g.op(op, x, axis_i=dim % x.rank, keepdims_i=keepdim)


def _is_softmax(x: Value, axis: int) -> bool:
    """Whether it is a softmax over the axis, of which all elements are NaN if one is: the first of them is index 0."""
    node = x.ir.producer()
    return node is not None and node.op_type in ("Softmax", "LogSoftmax") and node.attributes.get_int("axis") == axis


def _with_nan_as_infinity(g: Graph, x: Value, largest: bool) -> Value:
    """NaN as infinity, and infinity as the largest finite number: runtimes do not return the index of NaN."""
    sign = 1 if largest else -1
    limit = g.const(sign * torch.finfo(x.dtype).max, x.dtype)
    below = g.extreme("Min" if largest else "Max", x, limit)
    return g.where(g.is_nan(x), g.const(sign * math.inf, x.dtype), below)


# --- any, all ---------------------------------------------------------------------------------------------------------


@lowering("aten::any")
def any_(g: Graph, self: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return g.cast(_any(g, g.cast(self, torch.bool), dim, keepdim), g.out.dtype)


@lowering("aten::all")
def all_(g: Graph, self: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    """Whether none is false"""
    untrue = g.op("Not", g.cast(self, torch.bool))
    return g.cast(g.op("Not", _any(g, untrue, dim, keepdim)), g.out.dtype)


def _any(g: Graph, truth: Value, dim: Dims, keepdim: bool) -> Value:
    if dim == []:
        return truth
    # The sum of an empty axis is 0, and its maximum would be the lowest number.
    return g.cast(_reduce(g, "Sum", g.cast(truth, torch.int32), dim, keepdim), torch.bool)


@lowering("aten::count_nonzero")
def count_nonzero(g: Graph, self: Value, dim: Dims = None) -> Value:
    return _reduce(g, "Sum", g.cast(g.cast(self, torch.bool), torch.int64), dim)


# --- norms and moments ------------------------------------------------------------------------------------------------


@lowering("aten::linalg_vector_norm")
def vector_norm(
    g: Graph, self: Value, ord: float = 2, dim: Dims = None, keepdim: bool = False, dtype: object = None
) -> Value:
    """(sum |x|**ord) ** (1 / ord), and its limits for 0 and infinity"""
    x = g.accumulating(g.cast(self, g.out.dtype))
    if ord in (1, 2):
        norm = _reduce(g, "L1" if ord == 1 else "L2", x, dim, keepdim)
    elif ord == 0:
        nonzero = g.not_equal(x, g.const(0, x.dtype))
        norm = _reduce(g, "Sum", g.cast(nonzero, x.dtype), dim, keepdim)
    else:
        size = g.op("Abs", x)
        if math.isinf(ord):
            norm = _extreme(g, "Max" if ord > 0 else "Min", size, dim, keepdim)
        else:
            power = g.op("Pow", size, g.const(ord, x.dtype))
            norm = g.op("Pow", _reduce(g, "Sum", power, dim, keepdim), g.const(1 / ord, x.dtype))
    return g.cast(norm, g.out.dtype)


@lowering("aten::dist")
def dist(g: Graph, self: Value, other: Value, p: float = 2) -> Value:
    apart = g.op("Sub", *g.promote(self, other, dtype=g.out.dtype))
    return vector_norm(g, apart, p)


@lowering("aten::logsumexp")
def logsumexp(g: Graph, self: Value, dim: Dims, keepdim: bool = False) -> Value:
    # Of halves onnxruntime would sum exponentials that underflow or are infinite.
    total = _reduce(g, "LogSumExp", g.accumulating(g.cast(self, g.out.dtype)), dim, keepdim)
    return g.cast(total, g.out.dtype)


def _variance(g: Graph, x: Value, dim: Dims, correction: float, keepdim: bool) -> Value:
    """sum (x - mean)² / max(0, count - correction)"""
    kept = x if x.rank == 0 else g.reduce("Mean", x, axes_of(x, dim), True)
    centred = g.op("Sub", x, kept)
    return g.op("Div", _reduce(g, "SumSquare", centred, dim, keepdim), _freedom(g, _count(x, dim), correction, x.dtype))


def _freedom(g: Graph, count: Size, correction: float, dtype: torch.dtype) -> Value:
    if isinstance(count, int):
        return g.const(max(0.0, count - correction), dtype)
    return g.extreme("Max", g.op("Sub", g.scalar(count, dtype), correction), g.const(0, dtype))


@lowering("aten::var", "aten::std", "aten::var_mean", "aten::std_mean")
def var(
    g: Graph,
    self: Value,
    dim: Dims = None,
    unbiased: bool = True,
    keepdim: bool = False,
    correction: float | None = None,
) -> Value | tuple[Value, Value]:
    if correction is None:
        correction = float(unbiased)
    x = g.accumulating(self)
    average = _mean(g, x, dim, keepdim) if g.operator.endswith("_mean") else None
    spread = _variance(g, x, dim, correction, keepdim)
    if g.operator.startswith("aten::std"):
        spread = g.op("Sqrt", spread)
    found = g.cast(spread, g.out.dtype)
    return found if average is None else (found, g.cast(average, g.out.dtype))


# --- results ----------------------------------------------------------------------------------------------------------


_WHY = "torch's fake kernels import sympy, and take 5 ms with dynamic sizes"


@result_of("aten::mean", "aten::mean.dim", "aten::sum", "aten::sum.dim_IntList", "aten::amax", "aten::amin", why=_WHY)
def reduced_floats(
    self: torch.Tensor, dims: Sequence[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Any:
    return _reduced(self, dims, keepdim, self.dtype) if self.dtype.is_floating_point and not dtype else NotImplemented


@result_of("aten::linalg_vector_norm", why=_WHY)
def vector_norm_of_floats(
    self: torch.Tensor,
    ord: float = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    """torch refuses some other orders for axes of size 0."""
    is_plain = self.dtype.is_floating_point and not dtype and ord in (1, 2) and dim != []
    return _reduced(self, dim, keepdim, self.dtype) if is_plain else NotImplemented


@result_of("aten::all", "aten::all.dim", "aten::any", "aten::any.dim", why=_WHY)
def reduced_truths(self: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    if self.dtype is not torch.bool:
        return NotImplemented
    return _reduced(self, None if dim is None else [dim], keepdim, torch.bool)


def _reduced(x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype) -> Any:
    rank = x.ndim
    axes = {dim % rank for dim in dims or range(rank) if -rank <= dim < rank}
    if len(axes) != len(dims or range(rank)) or not are_contiguous(x):
        return NotImplemented
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keepdim or axis not in axes]
    return Contiguous(dtype, tuple(kept))


@result_of(
    "aten::logsumexp",
    why="torch asks whether there are no elements, or one, which is not known if it depends on values",
    static=False,
)
def logsumexp_result(self: torch.Tensor, dim: Sequence[int], keepdim: bool = False) -> torch.Tensor:
    """A sum has the same sizes, and the dtype of floats. It is not recorded."""
    dtype = self.dtype if self.is_floating_point() or self.is_complex() else torch.get_default_dtype()
    return torch.sum(self, list(dim), keepdim, dtype=dtype)
