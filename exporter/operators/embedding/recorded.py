"""What is recorded for `one_hot` of as many classes as the values say, or as dynamic sizes do."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.registry.recorded import instead_of


@instead_of("aten::one_hot", why="torch's decomposition reads the greatest value as a plain int")
def one_hot(x: torch.Tensor, num_classes: Size = -1) -> Any:
    count: Any = num_classes
    if isinstance(num_classes, int):
        if num_classes != -1:
            return NotImplemented
        count = x.max().item() + 1
    classes = torch.arange(count, device=x.device)
    return (x.unsqueeze(-1) == classes).to(torch.int64)
