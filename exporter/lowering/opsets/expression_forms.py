"""Expressions over symbols (sizes, and numbers read from tensors) as ONNX nodes: integers, real numbers and conditions.

Real numbers are computed in float64, as Python does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch

from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.expressions.bounds import Range, bounds
from onnx_parity.exporter.expressions.expression import Expression, known, parts_of
from onnx_parity.exporter.graph.graph import Size, SymbolSource
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["ExpressionForms"]

#: What a size may be.
_SIZES = Range(0, math.inf)
#: ONNX's operators by torch's names of the functions that round to an integer. Both round halves to even.
_ROUNDING = {"FloorToInt": "Floor", "CeilToInt": "Ceil", "RoundToInt": "Round"}

#: ONNX's operators by the names of the expressions.
_OPERATORS = {"FloatAdd": "Add", "FloatSub": "Sub", "FloatMul": "Mul", "FloatDiv": "Div", "FloatPow": "Pow"}
_FUNCTIONS = {"sqrt": "Sqrt", "exp": "Exp", "log": "Log", "tanh": "Tanh", "sin": "Sin", "cos": "Cos", "Abs": "Abs"}
_BASES = {"log2": 2.0, "log10": 10.0}
#: Comparisons of integers: the method that emits it, whether its sides are swapped, and whether it is negated.
_COMPARISONS = {
    "Equal": ("not_equal", False, True),
    "Unequal": ("not_equal", False, False),
    "Less": ("less", False, False),
    "LessOrEqual": ("less", True, True),
    "Greater": ("less", True, False),
    "GreaterOrEqual": ("less", False, True),
}
#: Those of real numbers, of which one may be NaN.
_COMPARISONS_OF_REALS = {
    "Equal": "equal",
    "Unequal": "not_equal",
    "Less": "less",
    "LessOrEqual": "less_or_equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_or_equal",
}


class ExpressionForms(Base):
    """Each expression as a tensor of one element."""

    def ints(self, sizes: Sequence[Size]) -> Value:
        """An int64 vector of sizes: a constant if all are known at export, else computed at run time."""
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

    def integer(self, expression: Expression) -> Value:
        """An integer expression as an int64 tensor of one element. Equal expressions are computed once."""
        known = self.known_numbers.get(expression)
        if known is None:
            known = self.known_numbers[expression] = self._integer(expression)
        return known

    def _integer(self, expression: Expression) -> Value:
        if expression.is_Integer:
            return self.const([known(expression)], torch.int64)
        if expression.is_Symbol:
            source = self.symbol(str(expression))
            value = source.value
            if source.axis is not None:
                return self._part_of_size(self.size(value, source.axis), source)
            number = self.cast(value, torch.int64)
            # In the body of a loop, onnx's shape inference assumes that the Unsqueeze or Reshape of a scalar is an
            # empty vector, and then refuses a Resize to it.
            return self.op("Add", number, self.const([0])) if value.shape == () else self.reshape(number, [1])
        rounded = self.rounded(expression)
        if rounded is not None:
            return rounded
        name = type(expression).__name__
        if name in ("Add", "Mul") and (size := self._size_of_axis(expression)) is not None:
            return size
        if name == "Choice":
            condition, *numbers = expression.args
            return self.where(self.truth(condition), *map(self.integer, numbers))
        arguments = [self.integer(argument) for argument in expression.args]
        if name in ("Add", "Mul"):
            total = arguments[0]
            for argument in arguments[1:]:
                total = self.op(name, total, argument)
            return total
        if name == "Abs":
            return self.op("Abs", *arguments)
        if name == "Pow":
            # In float64, which has all integers that are sizes. A runtime may compute a power just below one.
            power = self.op("Pow", *[self.cast(argument, torch.float64) for argument in arguments])
            return self.cast(self.elementary("Round", power), torch.int64)
        if name == "BitwiseAnd":
            return self.bitwise("And", *(shaped(each, [1]) for each in arguments))
        if name == "FloorDiv":
            # ONNX's Div truncates, which rounds down where neither number is negative.
            truncates = all(map(self._is_never_negative, expression.args))
            return self.op("Div", *arguments) if truncates else self.floor_divide(*arguments)
        if name == "Mod":
            return self.remainder(*arguments)
        if name in ("Max", "Min"):
            total = arguments[0]
            for argument in arguments[1:]:
                total = self.extreme(name, total, argument)  # type: ignore[arg-type]
            return total
        raise Unsupported(
            f"the size {expression} cannot be written in ONNX: {expression.spelled or name} of sizes is not supported"
        )

    def _is_never_negative(self, number: Expression) -> bool:
        """Whether a number is at least 0, whatever the sizes are that it is computed from."""
        sizes = {symbol: _SIZES for symbol in number.free_symbols if self.symbol(str(symbol)).is_of_a_size}
        return bool(bounds(number, sizes).lower >= 0)

    def _part_of_size(self, size: Value, source: SymbolSource[Value]) -> Value:
        """The number of which a size is a multiple, and an offset."""
        whole = self.op("Sub", size, self.const([source.offset], torch.int64)) if source.offset else size
        return whole if source.factor == 1 else self.op("Div", whole, self.const([source.factor], torch.int64))

    def _size_of_axis(self, expression: Expression) -> Value | None:
        """`8*h + 3` as the size of an axis, where h is read from the size of that axis."""
        if len(expression.free_symbols) != 1:
            return None
        (symbol,) = expression.free_symbols
        source = self.symbol(str(symbol))
        if source.axis is None or (source.factor, source.offset) == (1, 0):
            return None
        return self.size(source.value, source.axis) if expression == symbol * source.factor + source.offset else None

    def truth(self, statement: Expression) -> Value:
        """A condition on sizes as a bool tensor of one element."""
        name = type(statement).__name__
        if name == "Not":
            return self.op("Not", self.truth(statement.args[0]))
        if name in ("And", "Or"):
            return functools.reduce(lambda a, b: self.op(name, a, b), map(self.truth, statement.args))
        if any(side.is_float for side in statement.args):
            holds: Value = getattr(self, _COMPARISONS_OF_REALS[name])(*map(self.real, statement.args))
            return holds
        compare, swapped, negated = _COMPARISONS[name]
        one, other = (self.integer(side) for side in statement.args)
        answer: Value = getattr(self, compare)(*((other, one) if swapped else (one, other)))
        return self.op("Not", answer) if negated else answer

    def rounded(self, expression: Expression) -> Value | None:
        """An expression that rounds a real number, as an int64 tensor of one element; None for any other expression."""
        name = type(expression).__name__
        if name == "TruncToInt" or name in _ROUNDING:
            self._refuse_quotients_of_logarithms(expression)
        if name == "TruncToInt":
            # Cast truncates.
            return self.cast(self.real(expression.args[0]), torch.int64)
        if name not in _ROUNDING:
            return None
        return self.cast(self.op(_ROUNDING[name], self.real(expression.args[0])), torch.int64)

    def real(self, expression: Expression) -> Value:
        """A real expression as a float64 tensor of one element. Equal expressions are computed once."""
        if expression.is_number:
            return self.const([float(known(expression))], torch.float64)
        found = self.known_numbers.get(expression)
        if found is None:
            found = self.known_numbers[expression] = self._real(expression)
        return found

    def _real(self, expression: Expression) -> Value:
        name = type(expression).__name__
        if expression.is_Symbol:
            source = self.symbol(str(expression))
            assert source.axis is None, f"{expression} is a size, not a real number"
            return self.reshape(self.cast(source.value, torch.float64), [1])
        if name == "Choice":
            condition, *numbers = expression.args
            return self.where(self.truth(condition), *map(self.real, numbers))
        if name == "ToFloat":
            return self.cast(self.integer(expression.args[0]), torch.float64)
        if name == "IntTrueDiv":
            return self.op("Div", *[self.cast(self.integer(argument), torch.float64) for argument in expression.args])
        if name in _BASES:
            return self._logarithm(self.real(expression.args[0]), _BASES[name])
        if name in _FUNCTIONS:
            return self.op(_FUNCTIONS[name], self.real(expression.args[0]))
        if name in ("Max", "Min"):
            extreme = functools.partial(self.extreme, name)  # type: ignore[arg-type]
            return functools.reduce(extreme, map(self.real, expression.args))
        operator = _OPERATORS.get(name)
        if operator is None:
            raise Unsupported(
                f"the number {expression} cannot be written in ONNX: {expression.spelled or name} of real numbers is "
                "not supported"
            )
        total, *others = [self.real(argument) for argument in expression.args]
        for other in others:
            total = self.op(operator, total, other)
        return total

    def _logarithm(self, number: Value, base: float) -> Value:
        """The logarithm to base 2 or 10, which is exact where it is an integer, as Python's is."""
        quotient = self.op("Div", self.op("Log", number), self.const([math.log(base)], torch.float64))
        nearest = self.op("Floor", self.op("Add", quotient, self.const([0.5], torch.float64)))
        power = self.op("Pow", self.const([base], torch.float64), nearest)
        return self.op("Where", self.equal(power, number), nearest, quotient)

    @staticmethod
    def _refuse_quotients_of_logarithms(rounded: Expression) -> None:
        """Two logarithms that a runtime rounds otherwise than Python may have another integer as their quotient."""
        number = rounded.args[0]
        if not _is_logarithm(number) and any(map(_is_logarithm, parts_of(number))):
            raise Unsupported(
                f"{rounded} cannot be written in ONNX: it rounds what is computed from a logarithm, whose last digit "
                "differs between runtimes. Use math.log2 or math.log10, which are exact where they are integers"
            )


def _is_logarithm(expression: Expression) -> bool:
    return type(expression).__name__ == "log"
