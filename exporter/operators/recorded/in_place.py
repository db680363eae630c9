"""Operators in place whose functionalization in torch does not accept dynamic sizes, or takes long.

Such an operator is recorded as its variant without side effects, followed by a copy into the target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverloadPacket

from onnx_parity.exporter.registry.recorded import instead_of

_aten = torch.ops.aten
_OF_FLOATS = ("celu_", "elu_", "leaky_relu_", "mish_", "selu_", "sigmoid_")
_OF_NUMBERS = (
    "clamp_", "clamp_max_", "clamp_min_", "hardsigmoid_", "hardswish_", "hardtanh_", "nan_to_num_", "threshold_",
)  # fmt: skip
_NAMES = (
    "addr_", "copysign_", "cumprod_", "cumsum_", "exponential_", "floor_divide_", "geometric_", "heaviside_",
    "index_fill_", "lcm_", "ldexp_", "logit_", "renorm_", "sinc_", "tril_", "triu_", "xlogy_",
)  # fmt: skip
_IN_HALVES = (
    "abs_", "acos_", "acosh_", "addmm_", "asin_", "asinh_", "atan2_", "atan_", "atanh_", "cauchy_", "ceil_", "cos_",
    "cosh_", "deg2rad_", "digamma_", "eq_", "erf_", "erfc_", "erfinv_", "exp2_", "exp_", "expm1_",
    "floor_", "fmod_", "frac_", "ge_", "gelu_", "gt_", "hypot_", "i0_", "igamma_", "igammac_", "le_",
    "lgamma_", "log10_", "log1p_", "log2_", "log_", "log_normal_", "lt_", "ne_", "neg_", "pow_",
    "rad2deg_", "reciprocal_", "remainder_", "rsqrt_", "sgn_", "sign_", "sin_", "sinh_",
    "sqrt_", "square_", "tan_", "tanh_", "trunc_",
)  # fmt: skip
_HALVES = (torch.float16, torch.bfloat16)

_CHECKS_PLAIN_SIZES = "torch 2.13's functionalization checks their shapes with tensors of plain sizes"
_CANNOT_CAST = (
    "torch 2.13's functionalization computes their shapes in float32 if the tensor is float16 or bfloat16, "
    "and cannot cast symbols for that"
)
_TAKES_LONG = (
    "torch 2.13's functionalization checks their shapes with kernels in Python, which takes up to a millisecond, and "
    "not with all sizes and dtypes"
)


def _is_float(x: torch.Tensor) -> bool:
    return x.is_floating_point()


def _is_float_or_dynamic(x: torch.Tensor) -> bool:
    return x.is_floating_point() or _has_dynamic_sizes(x)


def _has_dynamic_sizes(x: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in x.shape)


def _has_dynamic_sizes_in_halves(x: torch.Tensor) -> bool:
    return x.dtype in _HALVES and _has_dynamic_sizes(x)


def _copied_back(functional: OpOverloadPacket, where: Callable[[torch.Tensor], bool]) -> Callable[..., Any]:
    def instead(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return self.copy_(functional(self, *args, **kwargs)) if where(self) else NotImplemented

    return instead


for _names, _where, _why in (
    (_OF_FLOATS, _is_float, _TAKES_LONG),
    (_OF_NUMBERS, _is_float_or_dynamic, _TAKES_LONG),
    (_NAMES, _has_dynamic_sizes, _CHECKS_PLAIN_SIZES),
    (_IN_HALVES, _has_dynamic_sizes_in_halves, _CANNOT_CAST),
):
    for _name in _names:
        _in_place, _functional = getattr(_aten, _name), getattr(_aten, _name.removesuffix("_"))
        _overloads = [getattr(_in_place, overload) for overload in _in_place.overloads()]
        instead_of(*_overloads, why=_why)(_copied_back(_functional, _where))


@instead_of("aten::normal_", why=_CANNOT_CAST)
def _normal(self: torch.Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Any:
    if not _has_dynamic_sizes_in_halves(self):
        return NotImplemented
    return self.copy_(_aten.normal_functional.default(self, mean, std, generator=generator))


@instead_of("aten::fill_diagonal_", why=_CHECKS_PLAIN_SIZES)
def _fill_diagonal(self: torch.Tensor, fill_value: float, wrap: bool = False) -> Any:
    if wrap or self.ndim != 2 or not _has_dynamic_sizes(self):
        return NotImplemented
    self.diagonal().fill_(fill_value)
    return self
