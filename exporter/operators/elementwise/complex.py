"""Functions of one complex number: absolute value and angle, exponentials, logarithms, powers, trigonometry."""

from __future__ import annotations

import math

import torch

from onnx_parity.exporter.kinds.complex_arithmetic import divided, product, sum_of
from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, by_parts, complex_of, parts_of

by_parts("aten::neg", "aten::positive")


@complex_of("aten::reciprocal")
def reciprocal(x: Parts) -> Operand:
    return divided(1, x)


@complex_of("aten::abs")
def abs_(x: Parts) -> torch.Tensor:
    return torch.hypot(x.real, x.imag)


@complex_of("aten::angle")
def angle(x: Parts) -> torch.Tensor:
    return torch.atan2(x.imag, x.real)


@complex_of("aten::sgn")
def sgn(x: Parts) -> Parts:
    """x / |x|, and 0 for 0"""
    length = abs_(x)
    safe = torch.where(length == 0, 1, length)
    return Parts(x.real / safe, x.imag / safe)


@complex_of("aten::exp")
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


@complex_of("aten::exp2")
def exp2(x: Parts) -> Parts:
    return exp(Parts(x.real * math.log(2), x.imag * math.log(2)))


@complex_of("aten::expm1")
def expm1(x: Parts) -> Parts:
    """exp(a) cos(b) - 1 is expm1(a) cos(b) - 2 sin(b / 2)**2, which cancels nothing near 0"""
    half = (x.imag / 2).sin()
    return Parts(x.real.expm1() * x.imag.cos() - 2 * half * half, x.real.exp() * x.imag.sin())


@complex_of("aten::log")
def log(x: Parts) -> Parts:
    return Parts(abs_(x).log(), angle(x))


@complex_of("aten::log2")
def log2(x: Parts) -> Parts:
    return Parts(abs_(x).log2(), angle(x) / math.log(2))


@complex_of("aten::log10")
def log10(x: Parts) -> Parts:
    return Parts(abs_(x).log10(), angle(x) / math.log(10))


@complex_of("aten::log1p")
def log1p(x: Parts) -> Parts:
    """log|1 + x| is half the log1p of |1 + x|² - 1 where x is small, which does not lose its digits"""
    a, b = x
    near = 0.5 * (a * (2 + a) + b * b).log1p()
    far = torch.hypot(1 + a, b).log()
    return Parts(torch.where(torch.hypot(a, b) < 0.5, near, far), torch.atan2(b, 1 + a))


@complex_of("aten::sqrt")
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


@complex_of("aten::rsqrt")
def rsqrt(x: Parts) -> Operand:
    return divided(1, sqrt(x))


@complex_of("aten::pow.Tensor_Scalar", "aten::pow.Tensor_Tensor", "aten::pow.Scalar", promotes=range(2))
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


@complex_of("aten::sinh")
def sinh(x: Parts) -> Parts:
    """sinh a cos b + i cosh a sin b, where one of the factors may be infinite and the other 0"""
    a, b = x
    size, is_lost = a.abs(), b * 0 != 0
    real = torch.where(is_lost & (size == math.inf), size, torch.where(a == 0, a, a.sinh() * b.cos()))
    return Parts(real, torch.where(b == 0, b, a.cosh() * b.sin()))


@complex_of("aten::cosh")
def cosh(x: Parts) -> Parts:
    """cosh a cos b + i sinh a sin b, likewise"""
    a, b = x
    size, is_lost = a.abs(), b * 0 != 0
    real = torch.where(is_lost & (size == math.inf), size, a.cosh() * b.cos())
    imag = torch.where(is_lost & (a == 0), a, a.sinh() * b.sin())
    return Parts(real, torch.where(b == 0, a.tanh() * b, imag))


@complex_of("aten::tanh")
def tanh(x: Parts) -> Parts:
    """(sinh 2a + i sin 2b) / (cosh 2a + cos 2b), divided by cosh² a; as in C where a part is infinite"""
    a, b = x
    t, inverse, c, s = a.tanh(), a.cosh().reciprocal(), b.cos(), b.sin()
    narrow = inverse * inverse
    below = c * c + s * s * t * t
    is_far = a.abs() == math.inf
    imag = torch.where(is_far & (b * 0 != 0), torch.copysign(narrow, b), s * c * narrow / below)
    return Parts(torch.where(is_far | (a == 0), t, t / below), torch.where(b == 0, b, imag))


@complex_of("aten::sin")
def sin(x: Parts) -> Parts:
    return _swapped(sinh(_swapped(x)))


@complex_of("aten::cos")
def cos(x: Parts) -> Parts:
    real, imag = cosh(_swapped(x))
    return Parts(real, -imag)


@complex_of("aten::tan")
def tan(x: Parts) -> Parts:
    return _swapped(tanh(_swapped(x)))


@complex_of("aten::sinc")
def sinc(x: Parts) -> Parts:
    scaled = Parts(x.real * math.pi, x.imag * math.pi)
    is_zero = (x.real == 0) & (x.imag == 0)
    ratio = parts_of(divided(sin(scaled), Parts(torch.where(is_zero, 1, scaled.real), scaled.imag)))
    return Parts(torch.where(is_zero, 1, ratio.real), torch.where(is_zero, 0, ratio.imag))


@complex_of("aten::sigmoid")
def sigmoid(x: Parts) -> Operand:
    return divided(1, sum_of(exp(Parts(-x.real, -x.imag)), 1))


@complex_of("aten::asinh")
def asinh(x: Parts) -> Parts:
    return _swapped(asin(_swapped(x)))


def _arc(x: Parts) -> tuple[torch.Tensor, torch.Tensor, Parts, Parts]:
    """sqrt(1 - x), sqrt(1 + x)"""
    low, high = sqrt(Parts(1 - x.real, -x.imag)), sqrt(Parts(1 + x.real, x.imag))
    return x.real, x.imag, low, high


@complex_of("aten::asin")
def asin(x: Parts) -> Parts:
    """By Kahan: from the roots of 1 - x and 1 + x, whose product is taken part by part"""
    a, b, low, high = _arc(x)
    size = a.abs()
    # The product is 0 times infinity where only the real part is infinite.
    is_far = (size == math.inf) & (b.abs() < math.inf)
    real = torch.atan2(size, torch.where(is_far, 0, low.real * high.real - low.imag * high.imag))
    return Parts(torch.copysign(real, a), torch.asinh(low.real * high.imag - low.imag * high.real))


@complex_of("aten::acos")
def acos(x: Parts) -> Parts:
    a, b, low, high = _arc(x)
    # Halfway to the axis where both parts are infinite.
    turn = torch.where((a.abs() == math.inf) & (b.abs() == math.inf), torch.sign(a) * (math.pi / 4), 0)
    real = 2 * torch.atan2(low.real, high.real) - turn
    return Parts(real, torch.asinh(high.real * low.imag - high.imag * low.real))


@complex_of("aten::acosh")
def acosh(x: Parts) -> Parts:
    """The real part by Kahan; the imaginary part is the angle of acos, with the sign of the imaginary part"""
    less, more = sqrt(Parts(x.real - 1, x.imag)), sqrt(Parts(x.real + 1, x.imag))
    real = torch.asinh(less.real * more.real + less.imag * more.imag)
    return Parts(real, torch.copysign(acos(x).real, x.imag))


@complex_of("aten::atanh")
def atanh(x: Parts) -> Parts:
    """log((1 + x) / (1 - x)) / 2, with the real part computed where it is positive; 0 and a right angle at infinity"""
    a, b = x
    size = a.abs()
    is_far = (size == math.inf) | (b.abs() == math.inf)
    real = torch.where(is_far, 0, (4 * size / ((1 - size) * (1 - size) + b * b)).log1p() / 4)
    imag = torch.where(is_far, math.pi / 2, torch.atan2(2 * b.abs(), (1 - a) * (1 + a) - b * b) / 2)
    return Parts(torch.copysign(real, a), torch.copysign(imag, b))


@complex_of("aten::atan")
def atan(x: Parts) -> Parts:
    return _swapped(atanh(_swapped(x)))
