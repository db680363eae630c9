"""Copies of tensors that are none for some sizes: `contiguous()` of a transposed matrix of one row is the matrix."""

from __future__ import annotations

import torch

from onnx_parity.exporter.graph.graph import Varying

__all__ = ["MAY_COPY", "note_copy"]

#: The operators that return a copy, or the memory of what they are given where it lies as it has to.
MAY_COPY = frozenset({"aten::contiguous", "aten::flatten", "aten::ravel", "aten::reshape", "aten::reshape_as"})


def note_copy(given: torch.Tensor, result: torch.Tensor) -> None:
    """Note what one of these made of a tensor, if it depends on dynamic sizes whether it is a copy."""
    if result is given or type(given) is not torch.Tensor:
        return
    for size in given.shape:
        if isinstance(size, Varying):
            size.node.shape_env.note_copy(given, result)
            return
