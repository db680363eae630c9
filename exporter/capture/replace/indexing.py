"""Indexing with uint8 tensors, which torch treats as masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from onnx_parity.exporter.capture.replace.registry import instead_of

_aten = torch.ops.aten


def _with_bools(op: OpOverload) -> Callable[..., Any]:
    def instead(self: torch.Tensor, indices: Sequence[torch.Tensor | None], *others: Any, **options: Any) -> Any:
        if not any(index is not None and index.dtype is torch.uint8 for index in indices):
            return NotImplemented
        masks = [index.bool() if index is not None and index.dtype is torch.uint8 else index for index in indices]
        return op(self, masks, *others, **options)

    return instead


for _op in (_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default):
    instead_of(_op, why="torch treats uint8 indices as masks, with a warning, but its fake kernels refuse them")(
        _with_bools(_op)
    )
