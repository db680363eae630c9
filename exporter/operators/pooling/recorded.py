"""What is recorded for pooling: in one dimension it is kept whole, and means over all of an image are means."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.registry.recorded import instead_of, keep_whole

_aten = torch.ops.aten

keep_whole(
    "aten::max_pool1d",
    "aten::avg_pool1d",
    why="torch pools in two dimensions, between two reshapes; ONNX pools in one dimension",
)

_LAYS_OUT_ANEW = "for images with channels last in memory, torch's decomposition rearranges the means with as_strided"


@instead_of("aten::adaptive_avg_pool2d", why=_LAYS_OUT_ANEW)
def adaptive_avg_pool2d(x: torch.Tensor, sizes: list[Size]) -> Any:
    return x.mean((-1, -2), True) if [*sizes] == [1, 1] else NotImplemented


@instead_of("aten::adaptive_avg_pool3d", why=_LAYS_OUT_ANEW)
def adaptive_avg_pool3d(x: torch.Tensor, sizes: list[Size]) -> Any:
    return x.mean((-1, -2, -3), True) if [*sizes] == [1, 1, 1] else NotImplemented
