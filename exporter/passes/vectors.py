"""Vectors of integers (axes, sizes, indices) that passes add to a model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor

__all__ = ["Vectors"]


class Vectors:
    """Vectors of integers that are added to the model, each once."""

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph
        self._known: dict[tuple[int, ...], ir.Value] = {}

    def of(self, numbers: Sequence[int], node: ir.Node) -> ir.Value:
        """The vector as an input of a node, after whose result it is named if no other node has it yet."""
        value = self._known.get(tuple(numbers))
        if value is None:
            taken = self._graph.initializers
            names = (f"{node.outputs[0].name}_numbers_{number}" for number in itertools.count())
            known = TorchTensor(torch.tensor(numbers), next(name for name in names if name not in taken))
            value = ir.Value(name=known.name, type=ir.TensorType(known.dtype), shape=known.shape, const_value=known)
            self._graph.initializers.add(value)
            self._known[tuple(numbers)] = value
        return value
