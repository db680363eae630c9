"""What is recorded for pooling: in one dimension it is kept whole, and means over all of an image are means."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.registry.recorded import instead_of, keep_whole, result_of_whole

_aten = torch.ops.aten

keep_whole(
    "aten::max_pool1d",
    "aten::avg_pool1d",
    why="torch pools in two dimensions, between two reshapes; ONNX pools in one dimension",
)

_FIXES_THE_LENGTH = "torch's fake kernel reads the length as a plain int; that of two-dimensional pooling does not"


@result_of_whole("aten::max_pool1d", why=_FIXES_THE_LENGTH)
def size_max_pool1d(
    x: torch.Tensor, kernel: list[int], stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> torch.Tensor:
    args = ([1, *kernel], [1, *(stride or kernel)], [0, *_listed(padding)], [1, *_listed(dilation)], ceil)
    pooled: torch.Tensor = _aten.max_pool2d_with_indices(x.unsqueeze(-2), *args)[0]
    return pooled.new_empty(pooled.squeeze(-2).shape)


@result_of_whole("aten::avg_pool1d", why=_FIXES_THE_LENGTH)
def size_avg_pool1d(
    x: torch.Tensor, kernel: list[int], stride: Any = (), padding: Any = 0, ceil: bool = False, counts: bool = True
) -> torch.Tensor:
    args = ([1, *kernel], [1, *(stride or kernel)], [0, *_listed(padding)], ceil, counts)
    pooled: torch.Tensor = _aten.avg_pool2d(x.unsqueeze(-2), *args)
    return pooled.squeeze(-2)


def _listed(numbers: Any) -> list[int]:
    return list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]


_LAYS_OUT_ANEW = "for images with channels last in memory, torch's decomposition rearranges the means with as_strided"


@instead_of("aten::adaptive_avg_pool2d", why=_LAYS_OUT_ANEW)
def adaptive_avg_pool2d(x: torch.Tensor, sizes: list[Size]) -> Any:
    return x.mean((-1, -2), True) if [*sizes] == [1, 1] else NotImplemented


@instead_of("aten::adaptive_avg_pool3d", why=_LAYS_OUT_ANEW)
def adaptive_avg_pool3d(x: torch.Tensor, sizes: list[Size]) -> Any:
    return x.mean((-1, -2, -3), True) if [*sizes] == [1, 1, 1] else NotImplemented
