"""Nested tensors that are joined, and taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F

from onnx_parity.exporter.kinds.nested.jagged import Jagged
from onnx_parity.exporter.kinds.nested.nested import Function, refused
from onnx_parity.exporter.kinds.nested.strided import Strided


@Jagged.rule("unbind", "iter")
@Strided.rule("unbind", "iter")
def _unbind(func: Function, nt: Jagged | Strided, dim: int = 0) -> Any:
    if dim != 0:
        raise refused("unbind along another axis than the first")
    return iter(nt.rows()) if func.__name__ == "__iter__" else tuple(nt.rows())


@Jagged.rule("split", "split_with_sizes", "tensor_split")
def _split(func: Function, nt: Jagged, by: Any, dim: int = 0) -> tuple[Jagged, ...]:
    return tuple(map(nt.alike, func(nt.values(), by, dim=nt.axis(dim, func.__name__))))


@Jagged.rule("chunk")
def _chunk(func: Function, nt: Jagged, chunks: int, dim: int = 0) -> tuple[Jagged, ...]:
    if dim % nt.ndim != 0:
        return _split(func, nt, chunks, dim)
    if nt._ragged_idx != 1:
        raise refused("chunk along its rows after its ragged axis has moved")
    nt.count()
    parts, start = [], nt._offsets[0].item()
    for lengths in nt._offsets.diff().chunk(chunks):
        offsets = F.pad(lengths.cumsum(0), (1, 0))
        end = start + offsets[-1].item()
        parts.append(Jagged(nt.values()[start:end], offsets))
        start = end
    return tuple(parts)


@Jagged.rule("cat", "concat", "concatenate", "stack")
def _cat(func: Function, tensors: Sequence[Any], dim: int = 0) -> Jagged:
    nt = next(each for each in tensors if isinstance(each, Jagged))
    stacks = func.__name__ == "stack"
    inner = nt.axis(dim, func.__name__, among=nt.ndim + 1 if stacks else None)
    values = [nt._beside(each, func.__name__) for each in tensors]
    if any(not isinstance(each, Jagged) for each in tensors):
        raise refused(f"{func.__name__} with dense ones")
    return nt.alike(func(values, dim=inner), nt._ragged_idx + (stacks and inner <= nt.inner))
