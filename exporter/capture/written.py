"""Operators in place whose functionalization takes no sizes that vary: written as what they compute, copied back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

__all__ = ["WRITTEN"]

_aten = torch.ops.aten
#: torch 2.13 checks the shapes of these on tensors of plain sizes.
_NAMES = (
    "addr_", "clamp_", "clamp_max_", "clamp_min_", "copysign_", "cumprod_", "cumsum_", "exponential_", "floor_divide_",
    "hardsigmoid_", "hardswish_", "hardtanh_", "heaviside_", "index_fill_", "lcm_", "ldexp_", "logit_", "nan_to_num_",
    "renorm_", "sinc_", "threshold_", "tril_", "triu_", "xlogy_",
)  # fmt: skip


def _varies(x: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in x.shape)


def _copied_back(functional: OpOverloadPacket) -> Callable[..., Any]:
    def instead(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        return self.copy_(functional(self, *args, **kwargs)) if _varies(self) else None

    return instead


def _fill_diagonal(self: torch.Tensor, fill_value: float, wrap: bool = False) -> torch.Tensor | None:
    if wrap or self.ndim != 2 or not _varies(self):
        return None
    self.diagonal().fill_(fill_value)
    return self


def _of_name(name: str) -> dict[OpOverload, Callable[..., Any]]:
    in_place, functional = getattr(_aten, name), getattr(_aten, name.removesuffix("_"))
    return {getattr(in_place, overload): _copied_back(functional) for overload in in_place.overloads()}


#: What is done instead, where that returns something.
WRITTEN: dict[OpOverload, Callable[..., Any]] = {_aten.fill_diagonal_.default: _fill_diagonal}
for _name in _NAMES:
    WRITTEN.update(_of_name(_name))
