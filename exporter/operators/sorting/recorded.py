"""What is recorded where elements are repeated as often as numbers say, and for the most frequent element."""

from __future__ import annotations

from typing import Any, cast

import torch

from onnx_parity.exporter.graph.graph import Size, same_size
from onnx_parity.exporter.registry.recorded import decomposition_of, instead_of

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


# --- if it has no lowering --------------------------------------------------------------------------------------------


@decomposition_of("aten::mode")
def mode(self: torch.Tensor, dim: int = -1, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The least of the most frequent elements, and its last index. All pairs of elements are compared."""
    if self.dim() == 0:
        return self.clone(), torch.zeros_like(self, dtype=torch.int64)
    x = self.movedim(dim, -1)
    same = x.unsqueeze(-1) == x.unsqueeze(-2)
    is_nan = x != x
    if x.is_floating_point():
        same = same | (is_nan.unsqueeze(-1) & is_nan.unsqueeze(-2))
    counts = same.sum(-1)
    is_most = counts == counts.amax(-1, True)
    known = is_most & ~is_nan
    largest = x.new_full((), True if x.dtype is torch.bool else _largest(x.dtype))
    least = torch.where(known, x, largest).to(torch.uint8 if x.dtype is torch.bool else x.dtype).amin(-1, True)
    value = least.to(x.dtype)
    found = known & (x == value)
    if x.is_floating_point():
        only_nan = ~known.any(-1, True)
        value = torch.where(only_nan, torch.nan, value)
        found = found | (only_nan & is_nan)
    index = torch.where(found, torch.arange(x.shape[-1], device=x.device), -1).amax(-1, True)
    results = [each.movedim(-1, dim) if keepdim else each.squeeze(-1) for each in (value, index)]
    return results[0], results[1]


def _largest(dtype: torch.dtype) -> float | int:
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max
