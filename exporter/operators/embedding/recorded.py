"""What is recorded for `one_hot` of as many classes as the values say."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.registry.recorded import instead_of


@instead_of("aten::one_hot", why="torch's decomposition reads the greatest value as a plain int")
def one_hot(x: torch.Tensor, num_classes: int = -1) -> Any:
    if num_classes != -1:
        return NotImplemented
    classes = torch.arange(x.max().item() + 1, device=x.device)
    return (x.unsqueeze(-1) == classes).to(torch.int64)
