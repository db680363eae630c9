"""Subgraphs under construction: the bodies of If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir
import torch

from onnx_parity.exporter.dtypes import type_of
from onnx_parity.exporter.graph.graph import Holds, Size
from onnx_parity.exporter.lowering.values.value import Value

if TYPE_CHECKING:
    from onnx_parity.exporter.lowering.opsets.base import Base

__all__ = ["Body"]


class Body:
    """A subgraph, whose nodes may use all values of the graphs around it."""

    def __init__(self, g: Base) -> None:
        self._g = g
        self._inputs: list[ir.Value] = []
        self._outputs: list[ir.Value] = []
        self.graph: ir.Graph

    def input(self, stem: str, dtype: torch.dtype, shape: Sequence[Size], holds: Holds = Holds.TENSOR) -> Value:
        """Add an input."""
        of_any_rank = holds is Holds.LIST_OF_ANY_RANK
        onnx_shape = None if of_any_rank else ir.Shape([size if isinstance(size, int) else None for size in shape])
        value = ir.Value(name=self._g.new_name(stem), type=type_of(dtype, holds), shape=onnx_shape)
        self._inputs.append(value)
        return Value(value, dtype, tuple(shape))

    def returns(self, values: Sequence[Value]) -> None:
        """Set the outputs. ONNX requires results of the body's own nodes, so other values pass through an Identity."""
        made = {output for node in self._g.nodes for output in node.outputs}
        for value in values:
            if value.ir not in made:
                value = self._g.identity(value)
            made.discard(value.ir)
            self._outputs.append(value.ir)

    def close(self, nodes: list[ir.Node]) -> None:
        self.graph = ir.Graph(self._inputs, self._outputs, nodes=nodes, name=self._g.new_name("body"))
