"""Sizes and numbers computed through real numbers, `int(x.shape[0] * 0.3)`: in float64, as Python does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.value import Value

if TYPE_CHECKING:
    import sympy

__all__ = ["RealForms"]

#: How an expression becomes an integer again.
#: ONNX rounds halves to even, as Python does.
_ROUNDING = {"FloorToInt": "Floor", "CeilToInt": "Ceil", "RoundToInt": "Round"}


#: Operators of ONNX by the name that torch's expressions have for them.
_OPERATORS = {"Add": "Add", "Mul": "Mul", "FloatTrueDiv": "Div", "FloatPow": "Pow", "Pow": "Pow"}
_FUNCTIONS = {
    "OpaqueUnaryFn_sqrt": "Sqrt",
    "OpaqueUnaryFn_exp": "Exp",
    "OpaqueUnaryFn_log": "Log",
    "OpaqueUnaryFn_tanh": "Tanh",
}


class RealForms(Base):
    """Arithmetic over real expressions of symbols."""

    def rounded(self, expression: sympy.Expr) -> Value | None:
        """An expression that rounds a real one, as an int64 tensor of one element; None for any other."""
        name = type(expression).__name__
        if name == "TruncToInt":
            # A Cast cuts the fraction off.
            return self.cast(self.real(expression.args[0]), torch.int64)
        if name not in _ROUNDING:
            return None
        return self.cast(self.op(_ROUNDING[name], self.real(expression.args[0])), torch.int64)

    def real(self, expression: sympy.Expr) -> Value:
        """Arithmetic over real numbers, as float64 tensors of one element."""
        if expression.is_Number:
            return self.const([float(expression)], torch.float64)
        name = type(expression).__name__
        if expression.is_Symbol:
            value, axis = self.symbol(str(expression))
            assert axis is None, f"{expression} is a size, and no real number"
            return self.reshape(self.cast(value, torch.float64), [1])
        if name == "ToFloat":
            return self.cast(self.integer(expression.args[0]), torch.float64)
        if name == "IntTrueDiv":
            return self.op("Div", *[self.cast(self.integer(argument), torch.float64) for argument in expression.args])
        function = _FUNCTIONS.get(name)
        if function is not None:
            return self.op(function, self.real(expression.args[0]))
        operator = _OPERATORS.get(name)
        if operator is None:
            raise Unsupported(f"a number is computed by {expression}, and {name} over real numbers has no form here")
        total, *others = [self.real(argument) for argument in expression.args]
        for other in others:
            total = self.op(operator, total, other)
        return total
