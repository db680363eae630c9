"""The ONNX values of the program's values: results of nodes, constants, and weights, which become initializers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir
import torch

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.files.lazy_tensors import WeightTensor
from onnx_parity.exporter.graph.graph import Graph as AtenGraph
from onnx_parity.exporter.graph.graph import Node, Size
from onnx_parity.exporter.graph.graph import Value as AtenValue
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["ProgramValues"]


class ProgramValues:
    """ONNX values by the values of the ATen graph. A constant is added to the ONNX graph when it is first read."""

    def __init__(self, graph: AtenGraph, g: Graph, *, weights_are_inputs: bool) -> None:
        self._graph = graph
        self._g = g
        self._weights_are_inputs = weights_are_inputs
        self._values: dict[AtenValue, Value] = {}
        #: The values that are computed at the export.
        self.known: Mapping[AtenValue, torch.Tensor] = {}
        #: Weights by their names in the program.
        self.weights: dict[str, Value] = {}

    def __getitem__(self, value: AtenValue) -> Value:
        known = self._values.get(value)
        if known is None:
            known = self._values[value] = self._constant(value)
        return known

    def __setitem__(self, value: AtenValue, lowered: Value) -> None:
        self._values[value] = lowered

    def read(self, constants: Iterable[AtenValue]) -> None:
        """Note that the model depends on the values of these, which are weights or literals."""
        for each in constants:
            if each.name:
                self[each].is_constant_read = True

    def forget(self, values: Iterable[AtenValue]) -> None:
        for value in values:
            self._values.pop(value, None)

    def shape(self, sizes: Sequence[Size], axis_names: Mapping[int, str] | None = None) -> ir.Shape:
        """A shape in ONNX, where dynamic axes have the given names, or those of their sizes."""
        return ir.Shape(
            [
                size if isinstance(size, int) else (axis_names or {}).get(axis) or self._graph.size_name(size)
                for axis, size in enumerate(sizes)
            ]
        )

    def _constant(self, value: AtenValue) -> Value:
        tensor = self.known.get(value, value.constant)
        if tensor is None:
            raise CaptureError(
                f"a tensor that is computed in a branch or loop is used after it{_used_at(self._g.node)}, but the "
                "branch or loop does not return it: return it from its function"
            )
        if not value.name and not tensor.is_meta:
            return self._g.literal(tensor)
        name = self._g.new_name(value.name or "literal")  # One without a name has no data yet.
        data = WeightTensor(tensor, is_learned=value.is_learned and not self._weights_are_inputs)
        known = self._g.initializer(name, data, value.dtype, tuple(tensor.shape))
        if value.name:
            self.weights[value.name] = known
            known.is_weight = True
        if not tensor.is_meta and not (value.name and self._weights_are_inputs):
            known.constant = tensor
        return known


def _used_at(node: Node | None) -> str:
    return f",{node.origin.placed}" if node is not None and node.origin.placed else ""
