"""The most frequent element."""

from __future__ import annotations

import torch

from onnx_parity.exporter.registry.recorded import decomposition_of


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
