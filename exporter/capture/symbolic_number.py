"""Symbolic numbers among the arguments of operators, and their values for the tensors of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from onnx_parity.exporter.capture.graph.graph import Value

__all__ = ["SymbolicNumber"]


@dataclass(frozen=True, slots=True)
class SymbolicNumber:
    """An expression, and the values of the graph that its symbols can be read from."""

    expression: sympy.Expr
    #: For each symbol, the value and the axis whose size it is; no axis if it is the value itself.
    sources: tuple[tuple[sympy.Symbol, Value, int | None], ...]

    def of(self, tensors: Mapping[Value, torch.Tensor]) -> Any:
        """The number for the tensors of a run. If the run is being recorded and sizes are symbols, so is the number."""
        known = {
            symbol: tensors[value].item() if axis is None else tensors[value].shape[axis]
            for symbol, value, axis in self.sources
        }
        return sympy_interp(_Arithmetic, known, self.expression)


class _Arithmetic(PythonReferenceAnalysis):
    """torch's evaluation of expressions, with the division of sizes, which torch leaves to sympy."""

    @staticmethod
    def int_truediv(a: Any, b: Any) -> Any:
        return a / b
