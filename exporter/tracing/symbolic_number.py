"""Symbolic numbers in the arguments of operators, which are computed from tensors when the graph is evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import torch

from onnx_parity.exporter.expressions.expression import Expression, Symbol
from onnx_parity.exporter.graph.graph import SymbolSource, Value, Varying

__all__ = ["SymbolicNumber"]


class SymbolicNumber(msgspec.Struct, frozen=True):
    """An expression, and the graph values from which its symbols are read."""

    expression: Expression
    sources: tuple[tuple[Symbol, SymbolSource[Value]], ...]

    def of(self, tensors: Mapping[Value, torch.Tensor]) -> Any:
        """The number for these tensors. While a program is recorded with symbolic sizes, the number is a symbol too."""
        numbers: dict[Symbol, Any] = {
            symbol: tensors[source.value].item()
            if source.axis is None
            else source.of_size(tensors[source.value].shape[source.axis])
            for symbol, source in self.sources
        }
        symbolic = next((each for each in numbers.values() if isinstance(each, Varying)), None)
        if symbolic is None:
            return self.expression.at(numbers)
        from onnx_parity.exporter.sizes.size_node import as_number

        given = {symbol: each.node.expr if isinstance(each, Varying) else each for symbol, each in numbers.items()}
        return as_number(self.expression.xreplace(given), symbolic.node.shape_env)
