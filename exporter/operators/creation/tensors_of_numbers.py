"""Tensors of symbolic numbers and of tensors: `torch.tensor([n, 2])`, `torch.as_tensor([x.sum(), 1])`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Varying
from onnx_parity.exporter.sizes.symbolic_numbers import with_symbolic_numbers

__all__: list[str] = []

_Function = Callable[..., Any]


@with_symbolic_numbers(torch.tensor, torch.as_tensor)
def tensor(torchs: _Function, data: Any, *args: Any, **options: Any) -> Any:
    return _assemble(data, *args, **options) if _has_parts(data) else NotImplemented


@with_symbolic_numbers(torch.Tensor.new_tensor)
def new_tensor(torchs: _Function, like: torch.Tensor, data: Any, **options: Any) -> Any:
    if not _has_parts(data):
        return NotImplemented
    return _assemble(data, **{"dtype": like.dtype, "device": like.device, **options})


def _has_parts(data: Any) -> bool:
    """Whether the data contains symbolic numbers, or lists with tensors, whose memory `torch.tensor` would read."""
    if isinstance(data, (list, tuple)):
        return any(isinstance(part, Varying | torch.Tensor) or _has_parts(part) for part in data)
    return isinstance(data, Varying)


def _assemble(
    data: Any, dtype: torch.dtype | None = None, device: Any = None, requires_grad: bool = False
) -> torch.Tensor:
    """The result of `torch.tensor(data)`, built from its parts with operators."""
    return _stack(data, dtype or _common_dtype(_parts_of(data)), device)


def _parts_of(data: Any) -> list[Any]:
    return [part for item in data for part in _parts_of(item)] if isinstance(data, (list, tuple)) else [data]


def _common_dtype(parts: list[Any]) -> torch.dtype:
    dtypes = [_dtype_of(part) for part in parts]
    common = dtypes[0]
    for dtype in dtypes[1:]:
        common = torch.promote_types(common, dtype)
    return common


def _dtype_of(part: Any) -> torch.dtype:
    if isinstance(part, torch.Tensor):
        return part.dtype
    if isinstance(part, (bool, torch.SymBool)):
        return torch.bool
    return torch.int64 if isinstance(part, (int, torch.SymInt)) else torch.get_default_dtype()


def _stack(data: Any, dtype: torch.dtype, device: Any) -> torch.Tensor:
    if isinstance(data, (list, tuple)):
        return torch.stack([_stack(part, dtype, device) for part in data])
    if isinstance(data, torch.Tensor):
        return data.to(device=device, dtype=dtype).reshape(())
    return torch.scalar_tensor(data, dtype=dtype, device=device)
