"""Result sizes of `baddbmm` and `addbmm`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from onnx_parity.exporter.capture.graph.graph import Size, same_size
from onnx_parity.exporter.capture.replace.registry import result_with_dynamic_sizes

_aten = torch.ops.aten


def _added_to(op: OpOverload) -> Callable[..., Any]:
    def result(self: torch.Tensor, batch1: torch.Tensor, batch2: torch.Tensor, **factors: float) -> torch.Tensor:
        if not self.dtype == batch1.dtype == batch2.dtype:
            raise RuntimeError(
                f"{op} takes tensors of one dtype, but got {self.dtype}, {batch1.dtype} and {batch2.dtype}"
            )
        products: torch.Tensor = _aten.bmm.default(batch1, batch2)
        sizes: list[Size] = list(products.shape if op is _aten.baddbmm.default else products.shape[1:])
        aligned = zip(reversed(self.shape), reversed(sizes), strict=False)
        # The comparison of a dynamic size with another records an assumption, which may fix an axis.
        if self.ndim > len(sizes) or not all(same_size(own, 1) or own == size for own, size in aligned):
            raise RuntimeError(f"{op} cannot add {list(self.shape)}: it does not broadcast to {sizes}")
        return torch.empty(sizes, dtype=self.dtype, device=self.device)

    return result


for _op in (_aten.baddbmm.default, _aten.addbmm.default):
    result_with_dynamic_sizes(
        _op, why="torch 2.13's fake kernels expand the added tensor with a kernel that takes only plain sizes"
    )(_added_to(_op))
