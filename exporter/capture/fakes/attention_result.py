"""How the result of attention lies in memory, without torch's fake tensors, for which torch imports sympy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from onnx_parity.exporter.capture.fakes.pointwise import Metadata

__all__ = ["lies_as_the_query"]

_DTYPES = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


def lies_as_the_query(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether torch computes `scaled_dot_product_attention` of tensors of static sizes by its fused kernel for CPUs.

    The result of that kernel has the sizes and the layout of the query. Tensors are given as `Metadata`. False if
    torch has to be asked.
    """
    if not kwargs.keys() <= {"scale"} or not 3 <= len(args) <= 6 or not torch.backends.cuda.flash_sdp_enabled():
        return False
    defaults: Sequence[Any] = (None, 0.0, False)
    query, key, value, mask, dropout, is_causal = (*args, *defaults[len(args) - 3 :])
    tensors = (query, key, value)
    if not all(isinstance(each, Metadata) and len(each.shape) == 4 and each.strides[-1] == 1 for each in tensors):
        return False
    if dropout or query.dtype not in _DTYPES or any(each.dtype != query.dtype for each in tensors):
        return False
    if query.device.type != "cpu" or any(each.device != query.device for each in tensors):
        return False
    batch, heads, queries, width = query.shape
    fits = key.shape == value.shape and key.shape == (batch, heads, key.shape[2], width)
    if not fits or 0 in query.shape or 0 in key.shape or not _fills_memory(query):
        return False
    if mask is None:
        return True
    of_scores = ((queries, key.shape[2]), (batch, heads, queries, key.shape[2]), (batch, 1, queries, key.shape[2]))
    return not is_causal and mask.shape in of_scores and mask.dtype in (torch.bool, query.dtype)


def _fills_memory(tensor: Metadata) -> bool:
    """Whether the elements lie side by side, in any order of the axes."""
    reached = 1
    for stride, size in sorted(zip(tensor.strides, tensor.shape, strict=True)):
        if size > 1 and stride != reached:
            return False
        reached *= size
    return True
