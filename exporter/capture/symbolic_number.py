"""Symbolic numbers in the arguments of operators, which are computed from tensors when the graph is evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import sympy
import torch
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from onnx_parity.exporter.capture.graph.graph import Value

__all__ = ["SymbolicNumber"]


class SymbolicNumber(msgspec.Struct, frozen=True):
    """An expression, and the graph values from which its symbols are read."""

    expression: sympy.Expr
    #: For each symbol, a value and the axis whose size it is. The axis is None if the symbol is the value itself.
    sources: tuple[tuple[sympy.Symbol, Value, int | None], ...]

    def of(self, tensors: Mapping[Value, torch.Tensor]) -> Any:
        """The number for these tensors. While a program is recorded with symbolic sizes, the number is a symbol too."""
        known = {
            symbol: tensors[value].item() if axis is None else tensors[value].shape[axis]
            for symbol, value, axis in self.sources
        }
        return sympy_interp(_Arithmetic, known, self.expression)


class _Arithmetic(PythonReferenceAnalysis):
    """torch's evaluation of expressions, plus the true division of sizes, which torch leaves to sympy."""

    @staticmethod
    def int_truediv(a: Any, b: Any) -> Any:
        return a / b
