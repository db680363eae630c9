"""Copies of tensors that are none for some sizes: `contiguous()` of a transposed matrix of one row is the matrix."""

from __future__ import annotations

import torch

from onnx_parity.exporter.graph.graph import Varying

__all__ = ["MAY_COPY", "note_copy"]

#: The operators that return a copy, or the memory of what they are given where it lies as it has to.
MAY_COPY = frozenset({"aten::contiguous", "aten::flatten", "aten::ravel", "aten::reshape", "aten::reshape_as"})


def note_copy(given: torch.Tensor, result: torch.Tensor, *, in_order: bool) -> torch.Tensor:
    """What one of these made of a tensor, which is noted if it depends on dynamic sizes whether it is a copy.

    Where it surely is none, as of the column of a single row, it is a view of the tensor, to which a write goes, or
    with `in_order`, as of `contiguous`, the tensor itself.
    """
    if result is given or type(given) is not torch.Tensor:
        return result
    for size in given.shape:
        if isinstance(size, Varying):
            if size.node.shape_env.note_copy(given, result, in_order):
                return given if in_order else given.view(result.shape)
            break
    return result
