"""Where ONNX versions differ. Each method emits the right form for the target opset; lowerings never ask which it is.

What came late is written out in terms of what was there before. What cannot be said at all raises `Unsupported`
with the first opset that can.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import sympy
import torch

from exporter.capture.graph import Size
from exporter.errors import Unsupported
from exporter.lowering.dtypes import TO_ONNX
from exporter.lowering.values import Number, Operand, Value

__all__ = ["Forms"]

Reduction = Literal["Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "LogSumExp", "SumSquare"]


class Forms(ABC):
    """The half of `g` that knows versions."""

    opset: int

    @abstractmethod
    def op(self, name: str, *inputs: Operand | None, outputs: int = 1, **attributes: Any) -> Any: ...
    @abstractmethod
    def const(self, value: Any, dtype: torch.dtype | None = None) -> Value: ...
    @abstractmethod
    def cast(self, x: Value, dtype: torch.dtype) -> Value: ...
    @abstractmethod
    def scalar(self, number: Number, dtype: torch.dtype) -> Value: ...
    @abstractmethod
    def symbol(self, name: str) -> tuple[Value, int]: ...

    # --- axes: attributes first, inputs later ---------------------------------------------------------------------

    def _with_axes(self, op: str, x: Value, axes: Sequence[int] | None, since: int, **attributes: Any) -> Value:
        if axes is None or self.opset < since:
            result: Value = self.op(op, x, axes_i=axes, **attributes)
        else:
            result = self.op(op, x, self.const(list(axes), torch.int64), **attributes)
        return result

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        return self._with_axes("Squeeze", x, axes, 13) if axes else x

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value:
        return self._with_axes("Unsqueeze", x, axes, 13) if axes else x

    def reduce(self, how: Reduction, x: Value, axes: Sequence[int] | None, keepdim: bool) -> Value:
        """Reduce over `axes`, over all of them for None."""
        since = 13 if how == "Sum" else 18
        if axes is not None and not axes:
            return x
        return self._with_axes(f"Reduce{how}", x, axes, since, keepdims_i=keepdim)

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        if list(permutation) == list(range(len(permutation))):
            return x
        result: Value = self.op("Transpose", x, perm_i=permutation)
        return result

    # --- sizes ----------------------------------------------------------------------------------------------------

    def size(self, x: Value, axis: int) -> Value:
        """One size of `x`, as an int64 tensor of one element."""
        if self.opset >= 15:
            result: Value = self.op("Shape", x, start_i=axis, end_i=axis + 1)
            return result
        return self.slice(self.op("Shape", x), [0], [axis], [axis + 1])

    def ints(self, sizes: Sequence[Size]) -> Value:
        """An int64 vector of sizes: a constant where all are known, computed from the inputs' shapes where not."""
        if all(isinstance(size, int) for size in sizes):
            return self.const(list(sizes) if sizes else torch.empty(0, dtype=torch.int64), torch.int64)
        parts: list[Value] = []
        known: list[int] = []
        for size in sizes:
            if isinstance(size, int):
                known.append(size)
                continue
            if known:
                parts.append(self.const(known, torch.int64))
                known = []
            parts.append(self._expression(size.node.expr))
        if known:
            parts.append(self.const(known, torch.int64))
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis_i=0)

    def _expression(self, expression: sympy.Expr) -> Value:
        """Integer arithmetic over symbols, as int64 tensors of one element."""
        if expression.is_Integer:
            return self.const([int(expression)], torch.int64)
        if expression.is_Symbol:
            return self.size(*self.symbol(str(expression)))
        name = type(expression).__name__
        arguments = [self._expression(argument) for argument in expression.args]
        if name in ("Add", "Mul"):
            total = arguments[0]
            for argument in arguments[1:]:
                total = self.op(name, total, argument)
            return total
        if name == "Pow" and expression.args[1].is_Integer and int(expression.args[1]) > 0:
            total = arguments[0]
            for _ in range(int(expression.args[1]) - 1):
                total = self.op("Mul", total, arguments[0])
            return total
        if name in ("FloorDiv", "CleanDiv"):
            return self.floor_divide(*arguments)
        if name in ("Mod", "PythonMod"):
            return self.op("Sub", arguments[0], self.op("Mul", self.floor_divide(*arguments), arguments[1]))
        if name in ("Max", "Min"):
            total = arguments[0]
            for argument in arguments[1:]:
                total = self.extreme(name, total, argument)  # type: ignore[arg-type]
            return total
        raise Unsupported(f"a size is {expression}, and {name} over sizes has no form here")

    def floor_divide(self, a: Value, b: Value) -> Value:
        """Integer division rounding down; ONNX's Div truncates."""
        quotient: Value = self.op("Div", a, b)
        remainder = self.op("Sub", a, self.op("Mul", quotient, b))
        zero = self.const(0, a.dtype)
        differs = self.op("And", self.not_equal(remainder, zero), self.op("Xor", self.less(remainder, zero), self.less(b, zero)))
        result: Value = self.op("Sub", quotient, self.cast(differs, a.dtype))
        return result

    def reshape(self, x: Value, sizes: Sequence[Size]) -> Value:
        """Reshape. One unknown size becomes -1 and sizes that stay in place become 0, so that few are computed."""
        if any(isinstance(size, int) and size == 0 for size in sizes):
            if self.opset >= 14:
                result: Value = self.op("Reshape", x, self.ints(sizes), allowzero_i=1)
                return result
            return self._reshape_empty(x, sizes)
        shape = list(sizes)
        inferred = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
        if len(inferred) > 1 and x.shape is not None:
            kept = [a for a in inferred if a < len(x.shape) and not isinstance(x.shape[a], int) and _same(x.shape[a], shape[a])]
            if len(kept) >= len(inferred) - 1:
                for axis in kept[: len(inferred) - 1] if len(kept) == len(inferred) else kept:
                    shape[axis] = 0
                inferred = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
        if len(inferred) == 1:
            shape[inferred[0]] = -1
        result = self.op("Reshape", x, self.ints(shape))
        return result

    def _reshape_empty(self, x: Value, sizes: Sequence[Size]) -> Value:
        """Before allowzero, a 0 copies the input's size: right only where that is 0 too. Elsewhere make it anew."""
        return self.full(sizes, 0, x.dtype)

    def expand(self, x: Value, sizes: Sequence[Size]) -> Value:
        """Broadcast `x`, whose rank may be lower, to `sizes`."""
        if self.opset >= 8:
            result: Value = self.op("Expand", x, self.ints(sizes))
            return result
        missing = len(sizes) - x.rank
        own: list[Size] = [1] * missing + list(x.sizes)
        if missing:
            x = self.unsqueeze(x, list(range(missing)))
        repeats: list[Size] = [size if isinstance(before, int) and before == 1 else 1 for before, size in zip(own, sizes, strict=True)]
        result = self.op("Tile", x, self.ints(repeats))
        return result

    def full(self, sizes: Sequence[Size], value: Number, dtype: torch.dtype) -> Value:
        """A tensor filled with one number."""
        result = self._filled(sizes, value, dtype)
        result.filled = value
        return result

    def _filled(self, sizes: Sequence[Size], value: Number, dtype: torch.dtype) -> Value:
        static = all(isinstance(size, int) for size in sizes)
        if static and math.prod(int(size) for size in sizes) <= 64:
            return self.const(torch.full([int(size) for size in sizes], value, dtype=dtype))  # type: ignore[arg-type]
        if self.opset >= 9 and not isinstance(value, torch.SymInt):
            result: Value = self.op("ConstantOfShape", self.ints(sizes), value_t=torch.tensor([value], dtype=dtype))
            return result
        one = self.scalar(value, dtype)
        if self.opset >= 8:
            result = self.op("Expand", one, self.ints(sizes))
            return result
        ones: Value = self.op("Reshape", one, self.const([1] * len(sizes), torch.int64)) if sizes else one
        result = self.op("Tile", ones, self.ints(sizes))
        return result

    # --- parts of tensors -----------------------------------------------------------------------------------------

    def slice(
        self,
        x: Value,
        axes: Sequence[int],
        starts: Sequence[Size],
        ends: Sequence[Size],
        steps: Sequence[int] | None = None,
    ) -> Value:
        if steps is not None and all(step == 1 for step in steps):
            steps = None
        if self.opset >= 10:
            axes_value = self.const(list(axes), torch.int64)
            steps_value = None if steps is None else self.const(list(steps), torch.int64)
            operands = [x, self.ints(starts), self.ints(ends), axes_value]
            result: Value = self.op("Slice", *operands, *([] if steps_value is None else [steps_value]))
            return result
        if not all(isinstance(bound, int) for bound in (*starts, *ends)):
            raise Unsupported("Slice takes bounds that vary only from opset 10", since=10)
        if steps is None:
            result = self.op("Slice", x, axes_i=axes, starts_i=starts, ends_i=ends)
            return result
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            size = x.sizes[axis]
            if not isinstance(size, int):
                raise Unsupported("a slice with a step over an axis that varies needs Slice of opset 10", since=10)
            picked = list(range(size))[slice(int(start), int(end), step)]
            x = self.op("Gather", x, self.const(picked, torch.int64), axis_i=axis)
        return x

    def split(self, x: Value, axis: int, sizes: Sequence[Size]) -> list[Value]:
        count = len(sizes)
        if count == 1:
            return [x]
        if self.opset < 13:
            if not all(isinstance(size, int) for size in sizes):
                raise Unsupported("Split takes sizes that vary only from opset 13", since=13)
            return list(self.op("Split", x, axis_i=axis, split_i=sizes, outputs=count))
        return list(self.op("Split", x, self.ints(sizes), axis_i=axis, outputs=count))

    def pad(self, x: Value, before: Sequence[Size], after: Sequence[Size], mode: str = "constant", value: Number = 0) -> Value:
        """Pad every axis; negative numbers crop."""
        pads = [*before, *after]
        if all(isinstance(pad, int) and pad == 0 for pad in pads):
            return x
        if self.opset >= 11:
            fill = self.scalar(value, x.dtype) if mode == "constant" else None
            operands = [x, self.ints(pads), *([] if fill is None else [fill])]
            result: Value = self.op("Pad", *operands, mode_s=mode)
            return result
        if not all(isinstance(pad, int) for pad in pads):
            raise Unsupported("Pad takes amounts that vary only from opset 11", since=11)
        if not x.dtype.is_floating_point:
            return self._pad_with_constants(x, pads, mode, value)
        result = self.op("Pad", x, mode_s=mode, pads_i=pads, value_f=value)
        return result

    def _pad_with_constants(self, x: Value, pads: Sequence[Size], mode: str, value: Number) -> Value:
        """Before opset 11, Pad takes floats only; of integers, constant blocks are joined on."""
        if mode != "constant":
            raise Unsupported(f"Pad in {mode} mode takes {x.dtype} only from opset 11", since=11)
        shape = [int(size) for size in x.sizes]
        rank = len(shape)
        for axis in range(rank):
            low, high = int(pads[axis]), int(pads[axis + rank])
            if low < 0 or high < 0:
                x = self.slice(x, [axis], [max(0, -low)], [shape[axis] + min(0, high)])
                shape[axis] += min(0, low) + min(0, high)
            blocks = [self.full([*shape[:axis], amount, *shape[axis + 1 :]], value, x.dtype) if amount > 0 else None for amount in (low, high)]
            parts = [part for part in (blocks[0], x, blocks[1]) if part is not None]
            x = self.op("Concat", *parts, axis_i=axis) if len(parts) > 1 else x
            shape[axis] += max(0, low) + max(0, high)
        return x

    # --- comparing and choosing -----------------------------------------------------------------------------------

    def _comparable(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Before opset 9 Less and Greater take floats only: compare 64-bit integers by the sign of their difference."""
        if self.opset < 9 and a.dtype is torch.int64:
            sign = self.cast(self.op("Sub", a, b), torch.float64)
            return sign, self.const(0.0, torch.float64)
        return a, b

    def less(self, a: Value, b: Value) -> Value:
        result: Value = self.op("Less", *self._comparable(a, b))
        return result

    def greater(self, a: Value, b: Value) -> Value:
        result: Value = self.op("Greater", *self._comparable(a, b))
        return result

    def less_or_equal(self, a: Value, b: Value) -> Value:
        if self.opset >= 12:
            result: Value = self.op("LessOrEqual", a, b)
            return result
        # Not(a > b) would call NaN <= b true.
        result = self.op("Or", self.less(a, b), self.equal(a, b))
        return result

    def greater_or_equal(self, a: Value, b: Value) -> Value:
        if self.opset >= 12:
            result: Value = self.op("GreaterOrEqual", a, b)
            return result
        result = self.op("Or", self.greater(a, b), self.equal(a, b))
        return result

    def equal(self, a: Value, b: Value) -> Value:
        if self.opset < 11 and a.dtype.is_floating_point:
            # Equal takes floats only from opset 11. Two numbers are equal when neither is less and neither is NaN.
            apart = self.op("Or", self.less(a, b), self.greater(a, b))
            result: Value = self.op("And", self.op("Not", apart), self.op("And", self._is_number(a), self._is_number(b)))
            return result
        result = self.op("Equal", a, b)
        return result

    def _is_number(self, x: Value) -> Value:
        """False for NaN, which is neither below 1 nor above 0."""
        result: Value = self.op("Or", self.less(x, self.const(1, x.dtype)), self.greater(x, self.const(0, x.dtype)))
        return result

    def not_number(self, x: Value) -> Value:
        """True for NaN."""
        result: Value = self.op("IsNaN", x) if self.opset >= 9 else self.op("Not", self._is_number(x))
        return result

    def not_equal(self, a: Value, b: Value) -> Value:
        result: Value = self.op("Not", self.equal(a, b))
        return result

    def where(self, condition: Value, a: Value, b: Value) -> Value:
        if self.opset >= 9:
            result: Value = self.op("Where", condition, a, b)
            return result
        if a.dtype is torch.bool:
            result = self.op("Or", self.op("And", condition, a), self.op("And", self.op("Not", condition), b))
            return result
        # No choice before opset 9 but arithmetic, exact for finite values: 0 * infinity would be NaN.
        chosen = self.cast(condition, a.dtype)
        other = self.cast(self.op("Not", condition), a.dtype)
        result = self.op("Add", self.op("Mul", a, chosen), self.op("Mul", b, other))
        return result

    def extreme(self, which: Literal["Max", "Min"], a: Value, b: Value) -> Value:
        """The elementwise maximum or minimum. NaN wins, as in torch."""
        if self.opset >= (8 if a.dtype.is_floating_point else 12):
            result: Value = self.op(which, a, b)
            return result
        first = self.greater(a, b) if which == "Max" else self.less(a, b)
        return self.where(first, a, b)

    def clip(self, x: Value, low: Number | None, high: Number | None) -> Value:
        if low is None and high is None:
            return x
        if self.opset >= 12 or (self.opset >= 11 and x.dtype.is_floating_point):
            bounds = [None if bound is None else self.scalar(bound, x.dtype) for bound in (low, high)]
            result: Value = self.op("Clip", x, *(bounds if high is not None else bounds[:1]))
            return result
        if x.dtype.is_floating_point:
            result = self.op("Clip", x, min_f=low, max_f=high)
            return result
        if low is not None:
            x = self.extreme("Max", x, self.scalar(low, x.dtype))
        return x if high is None else self.extreme("Min", x, self.scalar(high, x.dtype))

    def sign(self, x: Value) -> Value:
        if self.opset >= 9:
            result: Value = self.op("Sign", x)
            return result
        zero = self.const(0, x.dtype)
        result = self.op("Sub", self.cast(self.greater(x, zero), x.dtype), self.cast(self.less(x, zero), x.dtype))
        return result

    # --- operators that changed meaning or came late --------------------------------------------------------------

    def softmax(self, x: Value, dim: int, log: bool = False) -> Value:
        """Before opset 13 Softmax flattened everything from `axis` on: right for the last axis only."""
        op = "LogSoftmax" if log else "Softmax"
        last = x.rank - 1
        if x.rank == 0:
            return self.reshape(self.softmax_of_vector(self.reshape(x, [1]), op), [])
        if self.opset >= 13 or dim == last:
            result: Value = self.op(op, x, axis_i=dim)
            return result
        swap = list(range(x.rank))
        swap[dim], swap[last] = last, dim
        return self.transpose(self.op(op, self.transpose(x, swap), axis_i=last), swap)

    def softmax_of_vector(self, x: Value, op: str) -> Value:
        result: Value = self.op(op, x, axis_i=0)
        return result

    def layer_norm(self, x: Value, axes: int, weight: Value | None, bias: Value | None, epsilon: float) -> Value:
        """Normalise over the last `axes` axes."""
        if self.opset >= 17 and weight is not None:
            operands = [x, weight, *([] if bias is None else [bias])]
            result: Value = self.op("LayerNormalization", *operands, axis_i=-axes, epsilon_f=epsilon)
            return result
        over = list(range(x.rank - axes, x.rank))
        centred = self.op("Sub", x, self.reduce("Mean", x, over, True))
        variance = self.reduce("Mean", self.op("Mul", centred, centred), over, True)
        scaled: Value = self.op("Div", centred, self.op("Sqrt", self.op("Add", variance, epsilon)))
        if weight is not None:
            scaled = self.op("Mul", scaled, weight)
        return scaled if bias is None else self.op("Add", scaled, bias)

    def dropout(self, x: Value, p: float) -> Value:
        """Dropout as in training."""
        if self.opset >= 12:
            ratio = self.const(p, torch.float32)
            result: Value = self.op("Dropout", x, ratio, self.const(True, torch.bool))
            return result
        drawn = self.op("RandomUniformLike", x, dtype_i=_onnx_number(torch.float32))
        kept = self.op("Not", self.less(drawn, self.const(p, torch.float32)))
        result = self.op("Mul", x, self.op("Mul", self.cast(kept, x.dtype), 1 / (1 - p)))
        return result

    def uniform(self, sizes: Sequence[Size], dtype: torch.dtype) -> Value:
        """Random numbers in [0, 1)."""
        if all(isinstance(size, int) for size in sizes):
            result: Value = self.op("RandomUniform", shape_i=sizes, dtype_i=_onnx_number(dtype))
            return result
        result = self.op("RandomUniformLike", self.full(sizes, 0, dtype), dtype_i=_onnx_number(dtype))
        return result


def _same(a: Size, b: Size) -> bool:
    return not isinstance(a, int) and not isinstance(b, int) and a.node.expr == b.node.expr


def _onnx_number(dtype: torch.dtype) -> int:
    return TO_ONNX[dtype].value
