"""Sizes: shapes read, computed and imposed, whether known at export or only at run time."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from onnx_parity.exporter.capture.graph.graph import Size, Varying
from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import same_size, shaped
from onnx_parity.exporter.lowering.values.value import Number, Value

if TYPE_CHECKING:
    import sympy

__all__ = ["SizeForms"]


#: Comparisons of sizes by sympy's names: the form, whether its sides are swapped, and whether it is the opposite.
_COMPARISONS = {
    "Equality": ("not_equal", False, True),
    "Unequality": ("not_equal", False, False),
    "StrictLessThan": ("less", False, False),
    "LessThan": ("less", True, True),
    "StrictGreaterThan": ("less", True, False),
    "GreaterThan": ("less", False, True),
}


class SizeForms(Base):
    """Reshaping, expanding, filling, and arithmetic over sizes."""

    def size(self, x: Value, axis: int) -> Value:
        """One size of `x`, as an int64 tensor of one element."""
        if self.opset >= 15:
            return self.op("Shape", x, start_i=axis, end_i=axis + 1)
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
            parts.append(self.integer(size.node.expr))
        if known:
            parts.append(self.const(known, torch.int64))
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis_i=0)

    def integer(self, expression: sympy.Expr) -> Value:
        """Integer arithmetic over symbols, as int64 tensors of one element. Each is computed once."""
        known = self.integers.get(expression)
        if known is None:
            known = self.integers[expression] = self._integer(expression)
        return known

    def _integer(self, expression: sympy.Expr) -> Value:
        if expression.is_Integer:
            return self.const([int(expression)], torch.int64)
        if expression.is_Symbol:
            value, axis = self.symbol(str(expression))
            if axis is not None:
                return self.size(value, axis)
            number = self.cast(value, torch.int64)
            # In the body of a loop, onnx's shape inference takes a number that is unsqueezed or reshaped for a vector
            # of nothing, and then refuses a Resize to it.
            return self.op("Add", number, self.const([0])) if value.shape == () else self.reshape(number, [1])
        rounded = self.rounded(expression)
        if rounded is not None:
            return rounded
        name = type(expression).__name__
        arguments = [self.integer(argument) for argument in expression.args]
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

    def truth(self, statement: sympy.Basic) -> Value:
        """Whether a statement about sizes holds, as a bool tensor of one element."""
        name = type(statement).__name__
        if name == "Not":
            return self.op("Not", self.truth(statement.args[0]))
        if name in ("And", "Or"):
            return functools.reduce(lambda a, b: self.op(name, a, b), map(self.truth, statement.args))
        compare, turned, negated = _COMPARISONS[name]
        one, other = (self.integer(side) for side in statement.args)
        answer: Value = getattr(self, compare)(*((other, one) if turned else (one, other)))
        return self.op("Not", answer) if negated else answer

    def reshape(self, x: Value, sizes: Sequence[Size]) -> Value:
        """Reshape. One unknown size becomes -1 and sizes that stay in place become 0, so that few are computed."""
        return shaped(self._reshape(x, sizes), None if -1 in [s for s in sizes if isinstance(s, int)] else sizes)

    def _reshape(self, x: Value, sizes: Sequence[Size]) -> Value:
        if any(isinstance(size, int) and size == 0 for size in sizes):
            if self.opset >= 14:
                return self.op("Reshape", x, self.ints(sizes), allowzero_i=1)
            return self._reshape_empty(x, sizes)
        shape: list[Size] = list(sizes)
        inferred = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
        if len(inferred) > 1 and x.shape is not None:
            kept = [
                a
                for a in inferred
                if a < len(x.shape) and not isinstance(x.shape[a], int) and same_size(x.shape[a], shape[a])
            ]
            if len(kept) >= len(inferred) - 1:
                for axis in kept[: len(inferred) - 1] if len(kept) == len(inferred) else kept:
                    shape[axis] = 0
                inferred = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
        if len(inferred) == 1:
            shape[inferred[0]] = -1
        return self.op("Reshape", x, self.ints(shape))

    def _reshape_empty(self, x: Value, sizes: Sequence[Size]) -> Value:
        """Before allowzero, a 0 copies the input's size: right only where that is 0 too. Elsewhere make it anew."""
        return self.full(sizes, 0, x.dtype)

    def expand(self, x: Value, sizes: Sequence[Size]) -> Value:
        """Broadcast `x`, whose rank may be lower, to `sizes`."""
        if any(isinstance(size, int) and size == 0 for size in sizes):
            return self.full(sizes, 0, x.dtype)
        if self.opset >= 8:
            return shaped(self.op("Expand", x, self.ints(sizes)), sizes)
        missing = len(sizes) - x.rank
        own: list[Size] = [*([1] * missing), *x.sizes]
        if missing:
            x = self.unsqueeze(x, list(range(missing)))
        repeats: list[Size] = [
            size if isinstance(before, int) and before == 1 else 1 for before, size in zip(own, sizes, strict=True)
        ]
        return shaped(self.op("Tile", x, self.ints(repeats)), sizes)

    def full(self, sizes: Sequence[Size], value: Number, dtype: torch.dtype) -> Value:
        """A tensor filled with one number."""
        result = shaped(self._filled(sizes, value, dtype), sizes)
        result.filled = value
        return result

    def _filled(self, sizes: Sequence[Size], value: Number, dtype: torch.dtype) -> Value:
        varies = isinstance(value, Varying)
        static = not varies and all(isinstance(size, int) for size in sizes)
        if static and math.prod(int(size) for size in sizes) <= 64:
            return self.const(torch.full([int(size) for size in sizes], value, dtype=dtype))  # type: ignore[arg-type]
        if dtype is torch.bfloat16 and self.opset < 20:
            return self.cast(self._filled(sizes, value, torch.float32), dtype)
        if self.opset >= 9 and not varies:
            return self.op("ConstantOfShape", self.ints(sizes), value_t=torch.tensor([value], dtype=dtype))
        one = self.scalar(value, dtype)
        if self.opset >= 8:
            return self.op("Expand", one, self.ints(sizes))
        ones: Value = self.op("Reshape", one, self.const([1] * len(sizes), torch.int64)) if sizes else one
        return self.op("Tile", ones, self.ints(sizes))
