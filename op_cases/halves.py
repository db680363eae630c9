"""Numbers of 16 bits: large ones, and those beside numbers that 16 bits cannot represent, near which results jump."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from onnx_parity.harness.case import given, op

_HALVES = (torch.float16, torch.bfloat16)
#: The numbers next to 0.1, 0.3 and 1.2, on either side, and multiples of 0.1 and 0.3.
_NEXT = given(
    [
        *(0.0999755859375, 0.10003662109375, 0.099609375, 0.10009765625),
        *(0.2998046875, 0.300048828125, 0.298828125, 0.30078125),
        *(1.2001953125, 1.19921875, 1.203125, 1.1953125),
        *(-0.0999755859375, -0.10009765625, -0.300048828125, -0.30078125, -1.2001953125, -1.203125),
        *(0.5, 0.89990234375, 1.0, 12.296875, -0.89990234375, -7.0),
    ]
)
_LARGE = given([*(20.0, 88.0, 89.0, 100.0, 300.0, 60000.0), *(-20.0, -88.0, -89.0, -100.0, -300.0, -60000.0)])

#: At each opset, and so before opset 13 too, where it is refused.
bfloat16_alone = op(lambda x: F.relu(x) * 2 + 1, _NEXT, dtypes=[torch.bfloat16])
halves_softplus = op(F.softplus, _LARGE, dtypes=_HALVES)
halves_logsigmoid = op(F.logsigmoid, _LARGE, dtypes=_HALVES)
halves_mish = op(F.mish, _LARGE, dtypes=_HALVES)
halves_log1p = op(torch.log1p, given([0.0, 1e-3, 300.0, 60000.0, math.inf, -0.5, -1.0]), dtypes=_HALVES)
halves_logsumexp = op(
    torch.logsumexp, given([[60000.0, 60000.0], [-60000.0, -60000.0], [800.0, -800.0], [90.0, 91.0]]), dim=[0, 1],
    dtypes=_HALVES,
)  # fmt: skip
halves_softshrink = op(
    F.softshrink, _NEXT, lambd=[0.1, 0.3, 1.2], dtypes=_HALVES,
    signed_zeros=False, because="torch gives zeros the sign of the input, and ONNX's Shrink gives them none",
)  # fmt: skip
halves_hardshrink = op(F.hardshrink, _NEXT, lambd=[0.1, 0.3, 1.2], dtypes=_HALVES)
halves_threshold = op(F.threshold, _NEXT, threshold=[0.1, 0.3, 1.2], value=7.0, dtypes=_HALVES)
halves_divided = op(
    lambda x, by, rounding_mode: torch.div(x, by, rounding_mode=rounding_mode),
    _NEXT,
    by=[0.1, 0.3, -1.2],
    rounding_mode=["floor", "trunc"],
    dtypes=_HALVES,
    signed_zeros=False,
    because="torch gives a quotient that is zero the sign of the exact value; ONNX's formula gives it none",
)
halves_compared = op(
    lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y), _NEXT, y=[0.1, 0.3, 1.2], dtypes=_HALVES
)
halves_compared_with_themselves = op(lambda x: x.half().flip(0) == x.half(), given([0.1, 1 / 3, 0.1]))
halves_added = op(
    lambda x, f, value: f(x, x * x, x - 2, value=value),
    _NEXT,
    f=[torch.addcmul, torch.addcdiv],
    value=[0.1, 0.3],
    dtypes=_HALVES,
)
halves_product_out_of_range = op(
    lambda x, y: torch.addcmul(x, y, y), given([-60000.0, 10.0]), given([300.0, 2.0]), dtypes=_HALVES
)
#: The squares of these numbers, and a norm's epsilon, are too small for 16 bits.
_SMALL = given([[1e-2, 2e-2, -1e-2, 3e-2], [1e-3, 2e-3, -1e-3, -2e-3], [1e-4, 2e-4, -3e-4, 5e-5]])
halves_rms_norm = op(F.rms_norm, _SMALL, normalized_shape=(4,), eps=[None, 1e-6], dtypes=_HALVES)
halves_layer_norm = op(F.layer_norm, _SMALL, normalized_shape=(4,), eps=1e-7, dtypes=_HALVES)
#: What a number beyond the range of 16 bits is multiplied by, divided by, and added to.
_FEW = given([0.5, -2.0, 3.0, 0.0, -0.0, 100.0, -60000.0])
_BEYOND = [1e5, -1e9, 1e-8, -3e-6, 70000]
halves_beside_numbers = op(
    lambda x, f, number: f(x, number),
    _FEW,
    f=[torch.add, torch.sub, torch.mul, torch.div, torch.rsub],
    number=_BEYOND,
    dtypes=_HALVES,
)
halves_of_logarithms = op(
    lambda x, f, number: (f(x, number), f(number, x)),
    given([0.5, 2.0, 3.0, 0.0, 100.0, 60000.0]),
    f=[torch.xlogy, torch.special.xlog1py],
    number=[1e5, 1e9, 1e-8, 70000],
    dtypes=_HALVES,
)
halves_logit = op(torch.logit, given([0.0, 1e-3, 0.25, 0.75, 0.999, 1.0]), eps=[1e-6, 1e-8, 0.1, None], dtypes=_HALVES)
softplus_beyond_threshold = op(
    F.softplus, given([0.5, -2.0, 88.0, 89.0, 100.0, 60000.0, -60000.0]), threshold=[80.0, 1e5], beta=[1.0, 2.0],
    dtypes=(*_HALVES, torch.float32),
)  # fmt: skip
halves_in_place = op(lambda x, f, number: f(x.clone(), number), _FEW,
    f=[torch.Tensor.mul_, torch.Tensor.div_], number=_BEYOND, dtypes=_HALVES,
)  # fmt: skip
halves_divide_numbers = op(lambda x, number: number / x, _FEW, number=_BEYOND, dtypes=_HALVES)
halves_beside_tensors_of_one = op(
    lambda x, f, number: f(x, torch.tensor(number)), _FEW, f=[torch.mul, torch.div], number=_BEYOND, dtypes=_HALVES
)
halves_mask = op(lambda x, mask: x + (1 - mask) * -1e9, given([0.5, -2.0, 3.0]), given([1.0, 0.0, 1.0]), dtypes=_HALVES)
halves_clamped = op(lambda x: (x * 1e6).clamp(-100, 100), _FEW, dtypes=_HALVES)
halves_selected = op(lambda x: torch.where(x > 0, x, 0) * 1e5, _FEW, dtypes=_HALVES)
halves_scaled_products = op(
    lambda x, alpha: torch.baddbmm(x, x, x.mT, beta=1e-6, alpha=alpha), given([[[0.5, -2.0], [0.0, 3.0]]]),
    alpha=[1e5, 1e-6], dtypes=_HALVES,
)  # fmt: skip
halves_softplus_steep = op(F.softplus, given([0.5, -2.0, 3.0]), beta=[1e5, 1e6], dtypes=_HALVES)
