"""Sums, products and quotients of complex operands, which the rules of several families compute with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Varying
from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, Real

__all__ = ["divided", "is_not_zero", "product", "product_by", "sum_of"]


def sum_of(x: Operand, y: Operand, alpha: Operand = 1) -> Operand:
    """x + alpha * y"""
    if isinstance(alpha, (Parts, torch.Tensor)) or alpha != 1:
        y = product(y, alpha)
    if not isinstance(x, Parts) and not isinstance(y, Parts):
        return x + y
    (a, b), (c, d) = _loose(x), _loose(y)
    return Parts(a + c, _plus(b, d, like=a + c))


def product(x: Operand, y: Operand) -> Operand:
    """x * y. As in torch, a real factor has zeros as its imaginary part, which make NaN of infinities."""
    if not isinstance(x, Parts) and not isinstance(y, Parts):
        return _times(x, y)
    (a, b), (c, d) = _loose(x), _loose(y)
    return Parts(_times(a, c) - _times(b, d), _times(a, d) + _times(b, c))


def product_by(x: Operand, y: Operand, multiply: Callable[..., Any]) -> Operand:
    """A product that is linear in both factors."""
    if not isinstance(x, Parts):
        return Parts(multiply(x, y.real), multiply(x, y.imag)) if isinstance(y, Parts) else multiply(x, y)
    if not isinstance(y, Parts):
        return Parts(multiply(x.real, y), multiply(x.imag, y))
    real = multiply(x.real, y.real) - multiply(x.imag, y.imag)
    return Parts(real, multiply(x.real, y.imag) + multiply(x.imag, y.real))


def divided(x: Operand, y: Operand) -> Operand:
    """x / y by Smith's method, as torch computes it: the parts of y are divided by the larger one, not squared."""
    if not isinstance(x, Parts) and not isinstance(y, Parts):
        return x / y
    (a, b), (c, d) = _loose(x), _loose(y)
    if not isinstance(c, torch.Tensor) and not isinstance(d, torch.Tensor):
        if not isinstance(c, Varying) and complex(c, d) != 0:
            inverse = 1 / complex(c, d)
            return product(x, Parts(inverse.real, inverse.imag))
        c, d = (torch.full((), each, dtype=a.dtype, device=a.device) for each in (c, d))
    if not isinstance(y, Parts):
        # 0 as a divisor has no sign, and does not mix the parts.
        is_zero = c == 0
        divisor = torch.where(is_zero, 0, c)
        return Parts(torch.where(is_zero, a, a + b * 0) / divisor, torch.where(is_zero, b, b - a * 0) / divisor)
    is_zero = (c == 0) & (d == 0)
    is_low = c.abs() >= d.abs()
    large, small = torch.where(is_low, c, d), torch.where(is_low, d, c)
    ratio = small / large
    length = large + small * ratio
    a_part, b_part = (0 if _is_zero(each) else _times(each, ratio) for each in (a, b))
    real = torch.where(is_low, a + b_part, b + a_part) / length
    imag = torch.where(is_low, b - a_part, b_part - a) / length
    return Parts(torch.where(is_zero, a / c.abs(), real), torch.where(is_zero, b / d.abs(), imag))


def is_not_zero(x: Operand) -> Any:
    """Whether elements are other than zero; a real operand stays as it is."""
    return (x.real != 0) | (x.imag != 0) if isinstance(x, Parts) else x


def _loose(x: Operand) -> Parts:
    """The parts of an operand, with the number 0 as the imaginary part of a real tensor."""
    return x if isinstance(x, Parts) else Parts(x, 0)


def _is_zero(x: Real) -> bool:
    return not isinstance(x, torch.Tensor) and x == 0


def _times(x: Real, y: Real) -> Real:
    """The product; a factor is left out if it is the number 1"""
    if not isinstance(x, torch.Tensor) and x == 1:
        return y
    return x if not isinstance(y, torch.Tensor) and y == 1 else x * y


def _plus(x: Real, y: Real, like: Real) -> Real:
    """The sum of imaginary parts, of which one may be missing, in the shape that both operands have together."""
    total = x if _is_zero(y) else y if _is_zero(x) else x + y
    if isinstance(total, torch.Tensor) and isinstance(like, torch.Tensor):
        return total.expand(like.shape)
    return total
