"""Arithmetic on two tensors, or on a tensor and a number: add, sub, mul, div and what derives from them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Varying
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Operand, Value
from onnx_parity.exporter.recording.fakes.broadcasting import DynamicSizes, broadcast_together, sizes_met
from onnx_parity.exporter.recording.fakes.metadata import symbols_of
from onnx_parity.exporter.recording.fakes.pointwise import floats, numbers, pointwise, reversed_numbers, scaled_numbers
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.results import result_of


def _scaled(g: Graph, x: Value, alpha: float | Varying) -> Value:
    # Torch rounds the number to the dtype of the tensor, in which it may not compute.
    return x if not isinstance(alpha, Varying) and alpha == 1 else g.op("Mul", x, g.scalar(alpha, x.dtype))


@lowering("aten::add")
def add(g: Graph, self: Operand, other: Operand, alpha: float | Varying = 1) -> Value:
    # A float would keep -0.0, of which the sum is 0.0.
    adds_nothing = isinstance(other, (int, float)) and other == 0 and not g.out.dtype.is_floating_point
    if adds_nothing and isinstance(self, Value) and self.dtype is g.out.dtype:
        return self
    a, b = g.promote(self, other, dtype=g.out.dtype)
    if a.dtype is torch.bool:
        return g.op("Or", a, b) if alpha else a
    return g.op("Add", a, _scaled(g, b, alpha))


@lowering("aten::sub")
def sub(g: Graph, self: Operand, other: Operand, alpha: float | Varying = 1) -> Value:
    a, b = g.promote(self, other, dtype=g.out.dtype)
    return g.op("Sub", a, _scaled(g, b, alpha))


@lowering("aten::rsub")
def rsub(g: Graph, self: Value, other: Operand, alpha: float | Varying = 1) -> Value:
    a, b = g.promote(self, other, dtype=g.out.dtype)
    return g.op("Sub", b, _scaled(g, a, alpha))


@lowering("aten::mul")
def mul(g: Graph, self: Operand, other: Operand) -> Value:
    if isinstance(self, Value) and self.dtype is g.out.dtype and isinstance(other, (int, float)) and other == 1:
        return self
    a, b = g.promote_exactly(self, other, dtype=g.out.dtype)
    return g.cast(g.op("And" if a.dtype is torch.bool else "Mul", a, b), g.out.dtype)


@lowering("aten::div")
def div(g: Graph, self: Operand, other: Operand, rounding_mode: str | None = None) -> Value:
    is_half = g.out.dtype in (torch.bfloat16, torch.float16)
    if rounding_mode is None:
        a, b = g.promote_exactly(self, other, dtype=g.out.dtype)
        # ONNX divides integers towards zero.
        return g.cast(g.op("Div", a, b), g.out.dtype)
    # If the quotient is rounded, torch divides by a number itself, and not by the half that is nearest to it.
    is_wide = is_half and (not isinstance(other, Value) or (other.rank == 0 and other.dtype is not g.out.dtype))
    a, b = g.promote(self, other, dtype=torch.float32 if is_wide else g.out.dtype)
    if rounding_mode == "floor":
        floored = g.floor_divide_floats(a, b) if a.dtype.is_floating_point else g.floor_divide(a, b)
        return g.cast(floored, g.out.dtype)
    if not a.dtype.is_floating_point:
        return g.op("Div", a, b)
    if is_wide or not is_half:
        return g.cast(g.trunc(g.op("Div", a, b)), g.out.dtype)
    # torch truncates the rounded quotient. onnxruntime would pass it on in the float32 that it computes halves in.
    quotient = g.cast(g.op("Div", g.accumulating(a), g.accumulating(b)), a.dtype)
    return g.cast(g.trunc(g.accumulating(quotient)), a.dtype)


@lowering("aten::floor_divide")
def floor_divide(g: Graph, self: Operand, other: Operand) -> Value:
    return div(g, self, other, "floor")


@lowering("aten::remainder")
def remainder(g: Graph, self: Operand, other: Operand) -> Value:
    return g.remainder(*g.promote(self, other, dtype=g.out.dtype))


@lowering("aten::fmod")
def fmod(g: Graph, self: Operand, other: Operand) -> Value:
    return g.fmod(*g.promote(self, other, dtype=g.out.dtype))


@lowering("aten::addcmul")
def addcmul(g: Graph, self: Value, tensor1: Value, tensor2: Value, value: float = 1) -> Value:
    x, a, b = map(g.accumulating, g.promote(self, tensor1, tensor2, dtype=g.out.dtype))
    return g.cast(g.op("Add", x, g.op("Mul", _scaled(g, a, value), b)), g.out.dtype)


@lowering("aten::addcdiv")
def addcdiv(g: Graph, self: Value, tensor1: Value, tensor2: Value, value: float = 1) -> Value:
    x, a, b = map(g.accumulating, g.promote(self, tensor1, tensor2, dtype=g.out.dtype))
    return g.cast(g.op("Add", x, g.op("Div", _scaled(g, a, value), b)), g.out.dtype)


# --- results ----------------------------------------------------------------------------------------------------------

pointwise(floats, "div.Scalar div.Tensor")
pointwise(
    numbers,
    "add.Tensor fmod.Scalar fmod.Tensor mul.Scalar mul.Tensor remainder.Scalar remainder.Tensor sub.Tensor",
)
pointwise(reversed_numbers, "rsub.Tensor")
pointwise(scaled_numbers, "add.Scalar rsub.Scalar sub.Scalar")


@result_of(
    "aten::addcdiv",
    "aten::addcmul",
    "aten::lerp.Scalar",
    "aten::lerp.Tensor",
    why="torch's kernels expand a tensor of static sizes, such as a weight, to plain ints",
    static=False,
)
def sum_of_all(first: torch.Tensor, *others: Any, value: Any = 1) -> Any:
    """The operator of two tensors has the same sizes, dtype and strides. It is not recorded."""
    add, symbols = torch.ops.aten.add.Tensor, symbols_of(first)
    tensors: Sequence[torch.Tensor] = [first, *(each for each in others if isinstance(each, torch.Tensor))]
    if symbols is not None and sizes_met(add, tensors, symbols) is DynamicSizes.OF_VALUES:
        tensors = broadcast_together(add, tensors) or tensors
    described = floats(*tensors)
    return functools.reduce(torch.add, tensors) if described is NotImplemented else described
