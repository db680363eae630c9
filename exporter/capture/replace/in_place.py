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


#: torch 2.13 computes the shapes of these in float32 where they are of half as many bits, and cannot cast for that.
_IN_HALVES = (
    "abs_", "acos_", "acosh_", "addmm_", "asin_", "asinh_", "atan2_", "atan_", "atanh_", "ceil_", "celu_", "cos_",
    "cosh_", "deg2rad_", "digamma_", "elu_", "eq_", "erf_", "erfc_", "erfinv_", "exp2_", "exp_", "expm1_",
    "floor_", "fmod_", "frac_", "ge_", "gelu_", "gt_", "hypot_", "i0_", "igamma_", "igammac_", "le_",
    "leaky_relu_", "lgamma_", "log10_", "log1p_", "log2_", "log_", "lt_", "mish_", "ne_", "neg_", "pow_",
    "rad2deg_", "reciprocal_", "remainder_", "rsqrt_", "selu_", "sgn_", "sigmoid_", "sign_", "sin_", "sinh_",
    "sqrt_", "square_", "tan_", "tanh_", "trunc_",
)  # fmt: skip
_HALVES = (torch.float16, torch.bfloat16)


def _varies(x: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in x.shape)


def _varies_in_halves(x: torch.Tensor) -> bool:
    return x.dtype in _HALVES and _varies(x)


def _copied_back(functional: OpOverloadPacket, where: Callable[[torch.Tensor], bool]) -> Callable[..., Any]:
    def instead(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        return self.copy_(functional(self, *args, **kwargs)) if where(self) else None

    return instead


def _normal(self: torch.Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> torch.Tensor | None:
    if not _varies_in_halves(self):
        return None
    return self.copy_(_aten.normal_functional.default(self, mean, std, generator=generator))


def _fill_diagonal(self: torch.Tensor, fill_value: float, wrap: bool = False) -> torch.Tensor | None:
    if wrap or self.ndim != 2 or not _varies(self):
        return None
    self.diagonal().fill_(fill_value)
    return self


def _of_name(name: str, where: Callable[[torch.Tensor], bool]) -> dict[OpOverload, Callable[..., Any]]:
    in_place, functional = getattr(_aten, name), getattr(_aten, name.removesuffix("_"))
    return {getattr(in_place, overload): _copied_back(functional, where) for overload in in_place.overloads()}


#: What is done instead, where that returns something.
WRITTEN: dict[OpOverload, Callable[..., Any]] = {
    _aten.fill_diagonal_.default: _fill_diagonal,
    _aten.normal_.default: _normal,
}
for _names, _where in ((_NAMES, _varies), (_IN_HALVES, _varies_in_halves)):
    for _name in _names:
        WRITTEN.update(_of_name(_name, _where))
