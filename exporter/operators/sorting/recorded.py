"""What is recorded where elements are repeated as often as numbers say."""

from __future__ import annotations

from typing import Any, cast

import torch

from onnx_parity.exporter.graph.graph import Size, same_size
from onnx_parity.exporter.registry.recorded import instead_of

_aten = torch.ops.aten


@instead_of(
    "aten::repeat_interleave.self_Tensor",
    why="torch's own asks whether there is one number for each element or for all",
)
def repeat_interleave(x: torch.Tensor, repeats: torch.Tensor, dim: int | None = None, **output_size: Any) -> Any:
    sizes: list[Size] = [*x.shape, *repeats.shape]
    if all(isinstance(size, int) for size in sizes):
        return NotImplemented
    if dim is None:
        x, dim = x.reshape(-1), 0
    each = repeats.reshape(-1)
    count, given = x.shape[dim], cast("Size", each.shape[0])
    if isinstance(given, int) and given != 1:
        return NotImplemented
    if not same_size(count, given):
        # One number is repeated for all elements; where there are as many as elements, they stay as they are.
        each = each.index_select(0, torch.remainder(torch.arange(count, device=x.device), cast("int", given)))
    return x.index_select(dim, _aten.repeat_interleave.Tensor(each, **output_size))
