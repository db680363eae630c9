"""Conversions between jagged and dense tensors by ATen's own operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.kinds.nested.jagged_rows import packed, padded
from onnx_parity.exporter.registry.recorded import instead_of

_WHY = "torch's kernel reads the offsets, which are data: the rows are gathered by them instead"


@instead_of("aten::_jagged_to_padded_dense_forward", why=_WHY)
def _to_padded(
    values: torch.Tensor, offsets: Sequence[torch.Tensor], max_lengths: Sequence[Any], padding_value: float = 0.0
) -> Any:
    if len(offsets) != 1:
        return NotImplemented
    (each,) = offsets
    return padded(values, each[:-1], each.diff(), max_lengths[0], padding_value)


@instead_of("aten::_padded_dense_to_jagged_forward", why=_WHY)
def _from_padded(dense: torch.Tensor, offsets: Sequence[torch.Tensor], total_L: Any = None) -> Any:
    if len(offsets) != 1:
        return NotImplemented
    return packed(dense, offsets[0], offsets[0][-1].item() if total_L is None else total_L)
