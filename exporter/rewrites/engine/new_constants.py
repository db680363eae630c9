"""Constants that rewrites add to a model: vectors of axes, sizes and indices, numbers, and tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Hashable, Sequence

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor

from onnx_parity.exporter.dtypes import TO_TORCH
from onnx_parity.exporter.files.lazy_tensors import LazyTorchTensor

__all__ = ["NewConstants", "free_name"]


class NewConstants:
    """Constants that are added to the model, each once, and named after the result of the first node that needs it."""

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph
        self._known: dict[tuple[Hashable, ...], ir.Value] = {}

    def vector(self, numbers: Sequence[int], node: ir.Node) -> ir.Value:
        value = self._known.get(tuple(numbers))
        if value is None:
            tensor = torch.tensor(numbers, dtype=torch.int64)  # Without a dtype, that of no numbers would be float32.
            value = self._known[tuple(numbers)] = self._add(tensor, f"{node.outputs[0].name}_numbers")
        return value

    def number(self, number: float, dtype: ir.DataType, node: ir.Node) -> ir.Value:
        """A constant without axes."""
        key = dtype, number, math.copysign(1, number)  # -0.0 is equal to 0.0.
        value = self._known.get(key)
        if value is None:
            tensor = torch.tensor(number, dtype=TO_TORCH[dtype])
            value = self._known[key] = self._add(tensor, f"{node.outputs[0].name}_number")
        return value

    def table(self, key: tuple[Hashable, ...], make: Callable[[], torch.Tensor], node: ir.Node) -> ir.Value:
        """A larger constant, which the key tells from others of the same walk."""
        value = self._known.get(key)
        if value is None:
            value = self._known[key] = self._add(make(), f"{node.outputs[0].name}_table")
        return value

    def lazy(self, key: tuple[Hashable, ...], make: Callable[[], LazyTorchTensor], node: ir.Node) -> ir.Value:
        """A constant that is computed when it is written, which the key tells from others of the same walk."""
        value = self._known.get(key)
        if value is None:
            tensor = make()
            tensor.name = free_name(f"{node.outputs[0].name}_table", self._graph.initializers)
            value = self._known[key] = self._put(tensor)
        return value

    def _add(self, tensor: torch.Tensor, stem: str) -> ir.Value:
        return self._put(TorchTensor(tensor, free_name(stem, self._graph.initializers)))

    def _put(self, known: ir.TensorProtocol) -> ir.Value:
        value = ir.Value(
            name=known.name, type=ir.TensorType(known.dtype), shape=ir.Shape(known.shape.numpy()), const_value=known
        )
        self._graph.initializers.add(value)
        return value


def free_name(stem: str, taken: Container[str | None]) -> str:
    """A name that begins with the stem and is not taken."""
    return next(name for name in (f"{stem}_{number}" for number in itertools.count()) if name not in taken)
