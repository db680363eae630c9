"""Indexing with bytes, which torch's kernels take for masks, with a warning, and its meta kernels refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

__all__ = ["BYTE_MASKS"]

_aten = torch.ops.aten


def _with_bools(op: OpOverload) -> Callable[..., Any]:
    def instead(self: torch.Tensor, indices: Sequence[torch.Tensor | None], *others: Any, **options: Any) -> Any:
        if not any(index is not None and index.dtype is torch.uint8 for index in indices):
            return None
        masks = [index.bool() if index is not None and index.dtype is torch.uint8 else index for index in indices]
        return op(self, masks, *others, **options)

    return instead


#: What is done instead, where that returns something.
BYTE_MASKS: dict[OpOverload, Callable[..., Any]] = {
    op: _with_bools(op) for op in (_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default)
}
