"""Comparisons, where, maximum and minimum, clamp, and logical and bitwise operators."""

from __future__ import annotations

from typing import Any, Literal

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import same_shape
from onnx_parity.exporter.lowering.values.value import Operand, Value
from onnx_parity.exporter.operators.shape.lowering import expand
from onnx_parity.exporter.recording.fakes.metadata import are_contiguous
from onnx_parity.exporter.recording.fakes.pointwise import bits, broadcast, comparison, numbers, pointwise
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.results import Contiguous, result_of

_COMPARISONS = {
    "aten::eq": Graph.equal,
    "aten::ne": Graph.not_equal,
    "aten::lt": Graph.less,
    "aten::gt": Graph.greater,
    "aten::le": Graph.less_or_equal,
    "aten::ge": Graph.greater_or_equal,
}
_LOGIC: dict[str, Literal["And", "Or", "Xor"]] = {"and": "And", "or": "Or", "xor": "Xor"}


@lowering(*_COMPARISONS)
def compare(g: Graph, self: Operand, other: Operand) -> Value:
    if g.operator == "aten::ge" and isinstance(self, Value) and _counts_up(self) and _is_zero(other):
        return g.full(g.out.shape, True, torch.bool)
    return _COMPARISONS[g.operator](g, *g.promote(self, other))


def _counts_up(x: Value) -> bool:
    """Whether the elements are 0, 1, 2, ..., and none is so large that it would be negative."""
    return x.counts is not None and x.dtype in (torch.int64, torch.int32)


def _everywhere(x: Value) -> bool | int | float | None:
    """The number that all elements are known to be equal to, unless a weight has to be read for that."""
    return None if (x.repeats or x).is_weight else x.everywhere


def _is_zero(number: Operand) -> bool:
    if isinstance(number, Value):
        return _everywhere(number) == 0
    return isinstance(number, (int, float)) and number == 0


@lowering("aten::where")
def where(g: Graph, condition: Value, self: Operand, other: Operand) -> Value:
    a, b = g.promote(self, other, dtype=g.out.dtype)
    chosen = _always_chosen(condition, a, b)
    if chosen is not None and chosen.shape is not None and same_shape(chosen.sizes, g.out.shape):
        return chosen
    return g.where(g.cast(condition, torch.bool), a, b)


def _always_chosen(condition: Value, a: Value, b: Value) -> Value | None:
    """The one of two values that is chosen everywhere, if that is known."""
    known = condition.everywhere
    return None if known is None else a if known else b


@lowering("aten::isnan")
def isnan(g: Graph, self: Value) -> Value:
    return g.is_nan(self) if self.dtype.is_floating_point else g.full(g.out.shape, False, torch.bool)


@lowering("aten::isinf")
def isinf(g: Graph, self: Value) -> Value:
    return g.is_infinite(self) if self.dtype.is_floating_point else g.full(g.out.shape, False, torch.bool)


# --- max and min ------------------------------------------------------------------------------------------------------


@lowering("aten::maximum")
def maximum(g: Graph, self: Value, other: Value) -> Value:
    return g.extreme("Max", *g.promote(self, other, dtype=g.out.dtype))


@lowering("aten::minimum")
def minimum(g: Graph, self: Value, other: Value) -> Value:
    return g.extreme("Min", *g.promote(self, other, dtype=g.out.dtype))


@lowering("aten::fmax", "aten::fmin")
def number_extreme(g: Graph, self: Value, other: Value) -> Value:
    """The larger or smaller one, and NaN only if both are"""
    which: Literal["Max", "Min"] = "Max" if g.operator == "aten::fmax" else "Min"
    a, b = g.promote(self, other, dtype=g.out.dtype)
    if not a.dtype.is_floating_point:
        return g.extreme(which, a, b)
    first = g.where(g.is_nan(a), b, a)
    second = g.where(g.is_nan(b), a, b)
    return g.extreme(which, first, second)


@lowering("aten::clamp")
def clamp(g: Graph, self: Value, min: Operand | None = None, max: Operand | None = None) -> Value:
    x = g.cast(self, g.out.dtype)
    if not isinstance(min, Value) and not isinstance(max, Value):
        return g.clip(x, min, max)
    if min is not None:
        x = g.extreme("Max", x, *g.promote(min, dtype=x.dtype))
    return x if max is None else g.extreme("Min", x, *g.promote(max, dtype=x.dtype))


@lowering("aten::clamp_min")
def clamp_min(g: Graph, self: Value, min: Operand) -> Value:
    return clamp(g, self, min=min)


@lowering("aten::clamp_max")
def clamp_max(g: Graph, self: Value, max: Operand) -> Value:
    return clamp(g, self, max=max)


# --- logic ------------------------------------------------------------------------------------------------------------


@lowering("aten::logical_and", "aten::logical_or", "aten::logical_xor")
def logical(g: Graph, self: Value, other: Value) -> Value:
    return _logical(g, *(g.cast(each, torch.bool) for each in (self, other)))


def _logical(g: Graph, a: Value, b: Value) -> Value:
    """The operator of two booleans, or one of them where the other changes nothing: the mask of an encoder is made by
    what makes those of decoders."""
    name = g.operator.rpartition("_")[2]
    for kept, other in ((a, b), (b, a)):
        if name != "xor" and _everywhere(other) == int(name == "and"):
            return expand(g, kept)
    return g.op(_LOGIC[name], a, b)


@lowering("aten::logical_not")
def logical_not(g: Graph, self: Value) -> Value:
    return g.op("Not", g.cast(self, torch.bool))


@lowering("aten::bitwise_not")
def bitwise_not(g: Graph, self: Value) -> Value:
    if self.dtype is torch.bool:
        return g.op("Not", self)
    # In two's complement this is -1 - x. In an unsigned type -1 wraps around to all ones.
    ones = torch.tensor(-1).to(self.dtype)
    return g.op("Sub", g.const(ones), self)


@lowering("aten::bitwise_and", "aten::bitwise_or", "aten::bitwise_xor")
def bitwise(g: Graph, self: Operand, other: Operand) -> Value:
    a, b = g.promote(self, other, dtype=g.out.dtype)
    return _logical(g, a, b) if a.dtype is torch.bool else g.bitwise(_LOGIC[g.operator.rpartition("_")[2]], a, b)


@lowering("aten::bitwise_left_shift", "aten::__lshift__")
def left_shift(g: Graph, self: Operand, other: Operand) -> Value:
    return g.shift_left(*g.promote(self, other, dtype=g.out.dtype))


@lowering("aten::bitwise_right_shift", "aten::__rshift__")
def right_shift(g: Graph, self: Operand, other: Operand) -> Value:
    return g.shift_right(*g.promote(self, other, dtype=g.out.dtype))


# --- results ----------------------------------------------------------------------------------------------------------

pointwise(comparison, "eq.Scalar ge.Scalar gt.Scalar le.Scalar lt.Scalar ne.Scalar")
pointwise(comparison, "eq.Tensor ge.Tensor gt.Tensor le.Tensor lt.Tensor ne.Tensor")
pointwise(numbers, "clamp_max clamp_max.Tensor clamp_min clamp_min.Tensor maximum minimum")
pointwise(bits, "bitwise_and.Tensor bitwise_not bitwise_or.Tensor bitwise_xor.Tensor")
pointwise(comparison, "logical_and logical_not logical_or logical_xor")


@result_of("aten::clamp", why="torch's fake kernel imports sympy, and takes 0.6 ms for each call with dynamic sizes")
def clamp_result(self: torch.Tensor, *bounds: Any) -> Any:
    given = [bound for bound in bounds if bound is not None]
    return numbers(self, *given) if given else NotImplemented


@result_of("aten::where.self", why="torch's fake kernel asks questions about dynamic sizes, 5 ms for each call")
def where_result(condition: torch.Tensor, self: torch.Tensor, other: torch.Tensor) -> Any:
    is_plain = condition.dtype is torch.bool and self.dtype == other.dtype and are_contiguous(condition, self, other)
    shape = broadcast(condition, self, other) if is_plain else None
    return NotImplemented if shape is None else Contiguous(self.dtype, shape)
