"""Sizes computed through real numbers, as in `int(x.shape[0] * 0.3)`: in float64, as Python does."""

from __future__ import annotations

import sympy
import torch

from exporter.errors import Unsupported
from exporter.lowering.opsets.base import Base
from exporter.lowering.values import Value

__all__ = ["RealForms"]

#: How an expression becomes an integer again.
_ROUNDING = {"FloorToInt": "Floor", "CeilToInt": "Ceil"}


class RealForms(Base):
    """Arithmetic over real expressions of symbols."""

    def rounded(self, expression: sympy.Expr) -> Value | None:
        """An expression that rounds a real one, as an int64 tensor of one element; None for any other."""
        name = type(expression).__name__
        if name == "TruncToInt":
            # A Cast cuts the fraction off.
            return self.cast(self._real(expression.args[0]), torch.int64)
        if name not in _ROUNDING:
            return None
        return self.cast(self.op(_ROUNDING[name], self._real(expression.args[0])), torch.int64)

    def _real(self, expression: sympy.Expr) -> Value:
        if expression.is_Number:
            return self.const([float(expression)], torch.float64)
        name = type(expression).__name__
        if name == "ToFloat":
            return self.cast(self.integer(expression.args[0]), torch.float64)
        if name == "IntTrueDiv":
            return self.op("Div", *[self.cast(self.integer(argument), torch.float64) for argument in expression.args])
        operator = {"Add": "Add", "Mul": "Mul", "FloatTrueDiv": "Div"}.get(name)
        if operator is None:
            raise Unsupported(f"a size is computed by {expression}, and {name} over real numbers has no form here")
        total, *others = [self._real(argument) for argument in expression.args]
        for other in others:
            total = self.op(operator, total, other)
        return total
