"""What is recorded for shapes: sizes as tensors, broadcasting, and writes to triangles and diagonals."""

from __future__ import annotations

from typing import Any, cast

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.registry.in_place import DYNAMIC, copy_back
from onnx_parity.exporter.registry.recorded import instead_of

copy_back("tril_", "triu_", to=DYNAMIC)


@instead_of(
    "aten::_shape_as_tensor", why="torch's kernel writes the sizes to memory, which a fake tensor does not have"
)
def shape_as_tensor(x: torch.Tensor) -> torch.Tensor:
    sizes = [torch.scalar_tensor(size, dtype=torch.int64, device=x.device) for size in x.shape]
    return torch.stack(sizes) if sizes else torch.empty(0, dtype=torch.int64, device=x.device)


@instead_of("aten::_reshape_from_tensor", why="torch's kernel reads the memory of the tensor with the sizes")
def reshape_from_tensor(x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    return x.reshape([cast("int", size.item()) for size in shape.unbind(0)])


@instead_of("aten::broadcast_tensors", why="torch expands to a dynamic size that meets a known one, though it may be 1")
def broadcast_tensors(tensors: list[torch.Tensor]) -> Any:
    sizes: list[Size] = []
    for axis in range(-max((x.dim() for x in tensors), default=0), 0):
        met: list[Size] = [x.shape[axis] for x in tensors if x.dim() >= -axis]
        known = {size for size in met if isinstance(size, int)} - {1}
        dynamic = [size for size in met if not isinstance(size, int)]
        if len(known) > 1 or (len(dynamic) > 1 and not known):
            return NotImplemented
        sizes += known or dynamic or [1]
    return [x.expand(sizes) for x in tensors]


@instead_of("aten::fill_diagonal_", where=DYNAMIC.include, why=DYNAMIC.why)
def fill_diagonal_(self: torch.Tensor, fill_value: float, wrap: bool = False) -> Any:
    if wrap or self.ndim != 2:
        return NotImplemented
    self.diagonal().fill_(fill_value)
    return self
