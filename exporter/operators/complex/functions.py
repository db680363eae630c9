"""Functions of one complex number: absolute value and angle, exponentials, logarithms, powers, trigonometry."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, complex_of, parts_of
from onnx_parity.exporter.operators.complex.arithmetic import divided, product, sum_of

_aten = torch.ops.aten


@complex_of(_aten.abs.default)
def abs_(x: Parts) -> torch.Tensor:
    return torch.hypot(x.real, x.imag)


@complex_of(_aten.angle.default)
def angle(x: Parts) -> torch.Tensor:
    return torch.atan2(x.imag, x.real)


@complex_of(_aten.sgn.default)
def sgn(x: Parts) -> Parts:
    """x / |x|, and 0 for 0"""
    length = abs_(x)
    safe = torch.where(length == 0, 1, length)
    return Parts(x.real / safe, x.imag / safe)


@complex_of(_aten.exp.default)
def exp(x: Parts) -> Parts:
    """exp(a) (cos b + i sin b), and where a part is infinite what C defines; half the exponent overflows later"""
    a, b = x
    root = (a * 0.5).exp()
    # Of an infinite a: the direction is unknown if b is not finite.
    is_lost = (a.abs() == math.inf) & (b * 0 != 0)
    cosine = torch.where(is_lost, 1, b.cos())
    sine = torch.where(is_lost & (a < 0), 0, b.sin())
    imag = torch.where(b == 0, b, root * sine * root)
    return Parts(root * cosine * root, imag)


@complex_of(_aten.exp2.default)
def exp2(x: Parts) -> Parts:
    return exp(Parts(x.real * math.log(2), x.imag * math.log(2)))


@complex_of(_aten.expm1.default)
def expm1(x: Parts) -> Parts:
    """exp(a) cos(b) - 1 is expm1(a) cos(b) - 2 sin(b / 2)**2, which cancels nothing near 0"""
    half = (x.imag / 2).sin()
    return Parts(x.real.expm1() * x.imag.cos() - 2 * half * half, x.real.exp() * x.imag.sin())


@complex_of(_aten.log.default)
def log(x: Parts) -> Parts:
    return Parts(abs_(x).log(), angle(x))


@complex_of(_aten.log2.default)
def log2(x: Parts) -> Parts:
    return Parts(abs_(x).log2(), angle(x) / math.log(2))


@complex_of(_aten.log10.default)
def log10(x: Parts) -> Parts:
    return Parts(abs_(x).log10(), angle(x) / math.log(10))


@complex_of(_aten.logcumsumexp.default)
def logcumsumexp(x: Parts, dim: int) -> Parts:
    """One element after the other"""
    if not x.real.dim():
        return x
    totals: list[Parts] = []
    for a, b in zip(x.real.unbind(dim), x.imag.unbind(dim), strict=True):
        totals.append(_added_logs(Parts(a, b), totals[-1]) if totals else Parts(a, b))
    if not totals:
        return x
    return Parts(torch.stack([each.real for each in totals], dim), torch.stack([each.imag for each in totals], dim))


def _added_logs(x: Parts, y: Parts) -> Parts:
    """log(exp(x) + exp(y)) as m + log1p(exp(n - m)), where m has the larger real part; its angle is not reduced"""
    is_less = x.real < y.real
    least, most = (
        Parts(*(torch.where(is_less, a, b) for a, b in zip(*pair, strict=True))) for pair in ((x, y), (y, x))
    )
    # Of two infinite ones there is no difference.
    is_flat = (least.real == most.real) & (most.real.abs() == math.inf)
    ratio = exp(Parts(torch.where(is_flat, 0, least.real - most.real), least.imag - most.imag))
    added = log1p(ratio)
    return Parts(
        torch.where(is_flat, least.real, most.real + added.real),
        torch.where(is_flat, least.imag, most.imag + added.imag),
    )


@complex_of(_aten.log1p.default)
def log1p(x: Parts) -> Parts:
    """log|1 + x| is half the log1p of |1 + x|² - 1 where x is small, which does not lose its digits"""
    a, b = x
    near = 0.5 * (a * (2 + a) + b * b).log1p()
    far = torch.hypot(1 + a, b).log()
    return Parts(torch.where(torch.hypot(a, b) < 0.5, near, far), torch.atan2(b, 1 + a))


@complex_of(_aten.sqrt.default)
def sqrt(x: Parts) -> Parts:
    """The root with a real part that is not negative, computed from the part that cancels nothing"""
    a, b = x
    height = b.abs()
    root = (abs_(x) * 0.5 + a.abs() * 0.5).sqrt()
    other = height / (2 * torch.where(root == 0, 1, root))
    right = a >= 0
    # As C has it, an infinite imaginary part makes both parts infinite, whatever the real one is.
    is_high = height == math.inf
    real = torch.where(is_high, math.inf, torch.where(right, root, other))
    return Parts(real, torch.copysign(torch.where(is_high, math.inf, torch.where(right, other, root)), b))


@complex_of(_aten.rsqrt.default)
def rsqrt(x: Parts) -> Operand:
    return divided(1, sqrt(x))


@complex_of(_aten.pow.Tensor_Scalar, _aten.pow.Tensor_Tensor, _aten.pow.Scalar, promotes=range(2))
def pow_(x: Operand, exponent: Operand) -> Operand:
    """exp(exponent * log(x)), also where x is 0; small whole powers as products, and 1 for the number 0"""
    if isinstance(exponent, Parts) and not isinstance(exponent.real, torch.Tensor) and exponent.imag == 0:
        exponent = exponent.real
    if not isinstance(exponent, (Parts, torch.Tensor)) and exponent in (0, 1, 2, 3, -1, -2, 0.5, -0.5):
        return _small_power(parts_of(x), exponent)
    base, power = _as_tensors(x, exponent), _as_tensors(exponent, x)
    return exp(parts_of(product(power, log(base))))


def _small_power(x: Parts, exponent: float) -> Operand:
    if exponent == 0:
        return Parts(torch.ones_like(x.real), torch.zeros_like(x.imag))
    if exponent in (0.5, -0.5):
        return sqrt(x) if exponent > 0 else rsqrt(x)
    power: Operand = x
    for _ in range(abs(int(exponent)) - 1):
        power = product(power, x)
    return power if exponent > 0 else divided(1, power)


def _as_tensors(x: Operand, other: Operand) -> Parts:
    """The parts of an operand as tensors; a number gets the dtype of the other operand."""
    like = parts_of(other).real
    parts = parts_of(x)
    if isinstance(parts.real, torch.Tensor):
        return parts
    return Parts(*(torch.full((), each, dtype=like.dtype, device=like.device) for each in parts))


# --- trigonometry -----------------------------------------------------------------------------------------------------


def _swapped(x: Parts) -> Parts:
    """i times the conjugate: of i times the conjugate of x, sinh is that of sin, tanh that of tan, and so on"""
    return Parts(x.imag, x.real)


@complex_of(_aten.sinh.default)
def sinh(x: Parts) -> Parts:
    """sinh a cos b + i cosh a sin b, where one of the factors may be infinite and the other 0"""
    a, b = x
    size, is_lost = a.abs(), b * 0 != 0
    real = torch.where(is_lost & (size == math.inf), size, torch.where(a == 0, a, a.sinh() * b.cos()))
    return Parts(real, torch.where(b == 0, b, a.cosh() * b.sin()))


@complex_of(_aten.cosh.default)
def cosh(x: Parts) -> Parts:
    """cosh a cos b + i sinh a sin b, likewise"""
    a, b = x
    size, is_lost = a.abs(), b * 0 != 0
    real = torch.where(is_lost & (size == math.inf), size, a.cosh() * b.cos())
    imag = torch.where(is_lost & (a == 0), a, a.sinh() * b.sin())
    return Parts(real, torch.where(b == 0, a.tanh() * b, imag))


@complex_of(_aten.tanh.default)
def tanh(x: Parts) -> Parts:
    """(sinh 2a + i sin 2b) / (cosh 2a + cos 2b), divided by cosh² a; as in C where a part is infinite"""
    a, b = x
    t, inverse, c, s = a.tanh(), a.cosh().reciprocal(), b.cos(), b.sin()
    narrow = inverse * inverse
    below = c * c + s * s * t * t
    is_far = a.abs() == math.inf
    imag = torch.where(is_far & (b * 0 != 0), torch.copysign(narrow, b), s * c * narrow / below)
    return Parts(torch.where(is_far | (a == 0), t, t / below), torch.where(b == 0, b, imag))


@complex_of(_aten.sin.default)
def sin(x: Parts) -> Parts:
    return _swapped(sinh(_swapped(x)))


@complex_of(_aten.cos.default)
def cos(x: Parts) -> Parts:
    real, imag = cosh(_swapped(x))
    return Parts(real, -imag)


@complex_of(_aten.tan.default)
def tan(x: Parts) -> Parts:
    return _swapped(tanh(_swapped(x)))


@complex_of(_aten.sinc.default)
def sinc(x: Parts) -> Parts:
    scaled = Parts(x.real * math.pi, x.imag * math.pi)
    is_zero = (x.real == 0) & (x.imag == 0)
    ratio = parts_of(divided(sin(scaled), Parts(torch.where(is_zero, 1, scaled.real), scaled.imag)))
    return Parts(torch.where(is_zero, 1, ratio.real), torch.where(is_zero, 0, ratio.imag))


@complex_of(_aten.sigmoid.default)
def sigmoid(x: Parts) -> Operand:
    return divided(1, sum_of(exp(Parts(-x.real, -x.imag)), 1))


@complex_of(_aten.silu.default)
def silu(x: Parts) -> Operand:
    return product(x, sigmoid(x))


@complex_of(_aten.asinh.default)
def asinh(x: Parts) -> Parts:
    return _swapped(asin(_swapped(x)))


def _arc(x: Parts) -> tuple[torch.Tensor, torch.Tensor, Parts, Parts]:
    """sqrt(1 - x), sqrt(1 + x)"""
    low, high = sqrt(Parts(1 - x.real, -x.imag)), sqrt(Parts(1 + x.real, x.imag))
    return x.real, x.imag, low, high


@complex_of(_aten.asin.default)
def asin(x: Parts) -> Parts:
    """By Kahan: from the roots of 1 - x and 1 + x, whose product is taken part by part"""
    a, b, low, high = _arc(x)
    size = a.abs()
    # The product is 0 times infinity where only the real part is infinite.
    is_far = (size == math.inf) & (b.abs() < math.inf)
    real = torch.atan2(size, torch.where(is_far, 0, low.real * high.real - low.imag * high.imag))
    return Parts(torch.copysign(real, a), torch.asinh(low.real * high.imag - low.imag * high.real))


@complex_of(_aten.acos.default)
def acos(x: Parts) -> Parts:
    a, b, low, high = _arc(x)
    # Halfway to the axis where both parts are infinite.
    turn = torch.where((a.abs() == math.inf) & (b.abs() == math.inf), torch.sign(a) * (math.pi / 4), 0)
    real = 2 * torch.atan2(low.real, high.real) - turn
    return Parts(real, torch.asinh(high.real * low.imag - high.imag * low.real))


@complex_of(_aten.acosh.default)
def acosh(x: Parts) -> Parts:
    """The real part by Kahan; the imaginary part is the angle of acos, with the sign of the imaginary part"""
    less, more = sqrt(Parts(x.real - 1, x.imag)), sqrt(Parts(x.real + 1, x.imag))
    real = torch.asinh(less.real * more.real + less.imag * more.imag)
    return Parts(real, torch.copysign(acos(x).real, x.imag))


@complex_of(_aten.atanh.default)
def atanh(x: Parts) -> Parts:
    """log((1 + x) / (1 - x)) / 2, with the real part computed where it is positive; 0 and a right angle at infinity"""
    a, b = x
    size = a.abs()
    is_far = (size == math.inf) | (b.abs() == math.inf)
    real = torch.where(is_far, 0, (4 * size / ((1 - size) * (1 - size) + b * b)).log1p() / 4)
    imag = torch.where(is_far, math.pi / 2, torch.atan2(2 * b.abs(), (1 - a) * (1 + a) - b * b) / 2)
    return Parts(torch.copysign(real, a), torch.copysign(imag, b))


@complex_of(_aten.atan.default)
def atan(x: Parts) -> Parts:
    return _swapped(atanh(_swapped(x)))


# --- questions, norms -------------------------------------------------------------------------------------------------


@complex_of(_aten.isnan.default)
def isnan(x: Parts) -> Any:
    return x.real.isnan() | x.imag.isnan()


@complex_of(_aten.isinf.default)
def isinf(x: Parts) -> Any:
    return x.real.isinf() | x.imag.isinf()


@complex_of(_aten.isfinite.default)
def isfinite(x: Parts) -> Any:
    return x.real.isfinite() & x.imag.isfinite()


@complex_of(_aten.linalg_vector_norm.default)
def vector_norm(x: Parts, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    length = abs_(x)
    if dtype is not None:
        length = length.to(dtype.to_real())
    return _aten.linalg_vector_norm.default(length, ord, dim, keepdim)


@complex_of(_aten.var.correction)
def var(x: Parts, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    options = {"correction": correction, "keepdim": keepdim}
    return _aten.var.correction(x.real, dim, **options) + _aten.var.correction(x.imag, dim, **options)


@complex_of(_aten.std.correction)
def std(x: Parts, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return var(x, dim, correction=correction, keepdim=keepdim).sqrt()


@complex_of(_aten.var_mean.correction)
def var_mean(x: Parts, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    axes = list(range(x.real.dim())) if dim is None else dim
    mean = Parts(x.real.mean(axes, keepdim), x.imag.mean(axes, keepdim))
    return var(x, dim, correction=correction, keepdim=keepdim), mean


@complex_of(_aten.std_mean.correction)
def std_mean(x: Parts, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    variance, mean = var_mean(x, dim, correction=correction, keepdim=keepdim)
    return variance.sqrt(), mean


@complex_of(_aten.rms_norm.default)
def rms_norm(
    x: Operand, normalized_shape: list[int], weight: Operand | None = None, eps: float | None = None
) -> Operand:
    """x / sqrt(mean(x * x) + eps), with complex squares, as torch computes it"""
    parts = parts_of(x)
    squares = parts_of(product(parts, parts))
    axes = list(range(-len(normalized_shape), 0))
    mean = squares.real.mean(axes, keepdim=True) + (torch.finfo(parts.real.dtype).eps if eps is None else eps)
    scaled = divided(parts, sqrt(Parts(mean, squares.imag.mean(axes, keepdim=True))))
    return scaled if weight is None else product(scaled, weight)
