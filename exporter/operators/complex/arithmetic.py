"""Arithmetic and comparisons of complex tensors, sums, means and products."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, Real, by_parts, complex_of, parts_of

__all__ = ["divided", "product", "sum_of"]

_aten = torch.ops.aten

#: The places of operands: the first two arguments, or three of them.
_OPERANDS = range(3)

by_parts(_aten.neg.default, _aten._neg_view.default, _aten._neg_view_copy.default, _aten.positive.default)
by_parts(_aten.sum.default, _aten.sum.dim_IntList, _aten.mean.default, _aten.mean.dim, _aten.cumsum.default)
by_parts(_aten.nansum.default)


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


def divided(x: Operand, y: Operand) -> Operand:
    """x / y by Smith's method, as torch computes it: the parts of y are divided by the larger one, not squared."""
    if not isinstance(x, Parts) and not isinstance(y, Parts):
        return x / y
    (a, b), (c, d) = _loose(x), _loose(y)
    if not isinstance(c, torch.Tensor) and not isinstance(d, torch.Tensor):
        if complex(c, d) != 0:
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


@complex_of(_aten.add.Tensor, _aten.add.Scalar, promotes=_OPERANDS)
def add(x: Operand, y: Operand, alpha: Operand = 1) -> Operand:
    return sum_of(x, y, alpha)


@complex_of(_aten.sub.Tensor, _aten.sub.Scalar, promotes=_OPERANDS)
def sub(x: Operand, y: Operand, alpha: Operand = 1) -> Operand:
    return sum_of(x, product(y, alpha), -1)


@complex_of(_aten.rsub.Tensor, _aten.rsub.Scalar, promotes=_OPERANDS)
def rsub(x: Operand, y: Operand, alpha: Operand = 1) -> Operand:
    return sum_of(y, product(x, alpha), -1)


@complex_of(_aten.mul.Tensor, _aten.mul.Scalar, promotes=_OPERANDS)
def mul(x: Operand, y: Operand) -> Operand:
    return product(x, y)


@complex_of(_aten.div.Tensor, _aten.div.Scalar, promotes=_OPERANDS)
def div(x: Operand, y: Operand) -> Operand:
    return divided(x, y)


@complex_of(_aten.reciprocal.default)
def reciprocal(x: Parts) -> Operand:
    return divided(1, x)


@complex_of(_aten.addcmul.default, promotes=_OPERANDS)
def addcmul(x: Operand, tensor1: Operand, tensor2: Operand, value: Operand = 1) -> Operand:
    return sum_of(x, product(tensor1, tensor2), value)


@complex_of(_aten.addcdiv.default, promotes=_OPERANDS)
def addcdiv(x: Operand, tensor1: Operand, tensor2: Operand, value: Operand = 1) -> Operand:
    return sum_of(x, divided(tensor1, tensor2), value)


@complex_of(_aten.lerp.Tensor, _aten.lerp.Scalar, promotes=_OPERANDS)
def lerp(x: Operand, end: Operand, weight: Operand) -> Operand:
    return sum_of(x, product(sum_of(end, x, -1), weight))


@complex_of(_aten.eq.Tensor, _aten.eq.Scalar, promotes=_OPERANDS)
def eq(x: Operand, y: Operand) -> Any:
    (a, b), (c, d) = parts_of(x), parts_of(y)
    return (a == c) & (b == d)


@complex_of(_aten.ne.Tensor, _aten.ne.Scalar, promotes=_OPERANDS)
def ne(x: Operand, y: Operand) -> Any:
    (a, b), (c, d) = parts_of(x), parts_of(y)
    return (a != c) | (b != d)


@complex_of(_aten.logical_not.default)
def logical_not(x: Parts) -> torch.Tensor:
    is_zero: torch.Tensor = (x.real == 0) & (x.imag == 0)
    return is_zero


def _truth(x: Operand) -> Operand:
    return (x.real != 0) | (x.imag != 0) if isinstance(x, Parts) else x


@complex_of(_aten.logical_and.default)
def logical_and(x: Operand, y: Operand) -> Any:
    return torch.logical_and(_truth(x), _truth(y))  # type: ignore[arg-type]


@complex_of(_aten.logical_or.default)
def logical_or(x: Operand, y: Operand) -> Any:
    return torch.logical_or(_truth(x), _truth(y))  # type: ignore[arg-type]


@complex_of(_aten.logical_xor.default)
def logical_xor(x: Operand, y: Operand) -> Any:
    return torch.logical_xor(_truth(x), _truth(y))  # type: ignore[arg-type]


def _of_truth(op: Any) -> None:
    """A reduction of whether elements are zero."""
    complex_of(op)(lambda x, *args, **kwargs: op(_truth(x), *args, **kwargs))


for _op in (
    _aten.any.default, _aten.any.dim, _aten.any.dims, _aten.all.default, _aten.all.dim, _aten.all.dims,
    _aten.count_nonzero.default, _aten.count_nonzero.dim_IntList, _aten.nonzero.default, _aten.nonzero_static.default,
):  # fmt: skip
    _of_truth(_op)


@complex_of(_aten.prod.default)
def prod(x: Parts, *, dtype: Any = None) -> Operand:
    return prod_along(Parts(x.real.reshape(-1), x.imag.reshape(-1)), 0)


@complex_of(_aten.prod.dim_int)
def prod_along(x: Parts, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Operand:
    real, imag = (x.real, x.imag) if x.real.dim() else (x.real.reshape(1), x.imag.reshape(1))
    total: Operand = Parts(torch.ones_like(real).sum(dim) * 0 + 1, torch.zeros_like(real).sum(dim))
    for a, b in zip(real.unbind(dim), imag.unbind(dim), strict=True):
        total = product(total, Parts(a, b))
    if keepdim and x.real.dim():
        return Parts(total.real.unsqueeze(dim), total.imag.unsqueeze(dim))  # type: ignore[union-attr]
    return total


@complex_of(_aten.cumprod.default)
def cumprod(x: Parts, dim: int, *, dtype: Any = None) -> Operand:
    if not x.real.dim():
        return x
    total: Operand = 1
    totals = []
    for a, b in zip(x.real.unbind(dim), x.imag.unbind(dim), strict=True):
        total = product(total, Parts(a, b))
        totals.append(parts_of(total))
    if not totals:
        return x
    return Parts(torch.stack([each.real for each in totals], dim), torch.stack([each.imag for each in totals], dim))
