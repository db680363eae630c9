"""Comparisons of complex tensors, and questions about their elements."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.kinds.complex_arithmetic import is_not_zero
from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, by_parts, complex_of, parts_of

by_parts("aten::where.self", "aten::where.ScalarOther", data=("self", "other"))


@complex_of("prims::where")
def where(pred: torch.Tensor, a: Operand, b: Operand) -> Parts:
    (real, imag), (other_real, other_imag) = parts_of(a), parts_of(b)
    return Parts(torch.where(pred, real, other_real), torch.where(pred, imag, other_imag))


@complex_of("aten::eq.Tensor", "aten::eq.Scalar", promotes=range(2))
def eq(x: Operand, y: Operand) -> Any:
    (a, b), (c, d) = parts_of(x), parts_of(y)
    return (a == c) & (b == d)


@complex_of("aten::ne.Tensor", "aten::ne.Scalar", promotes=range(2))
def ne(x: Operand, y: Operand) -> Any:
    (a, b), (c, d) = parts_of(x), parts_of(y)
    return (a != c) | (b != d)


@complex_of("aten::logical_not")
def logical_not(x: Parts) -> torch.Tensor:
    is_zero: torch.Tensor = (x.real == 0) & (x.imag == 0)
    return is_zero


@complex_of("aten::logical_and")
def logical_and(x: Operand, y: Operand) -> Any:
    return torch.logical_and(is_not_zero(x), is_not_zero(y))


@complex_of("aten::logical_or")
def logical_or(x: Operand, y: Operand) -> Any:
    return torch.logical_or(is_not_zero(x), is_not_zero(y))


@complex_of("aten::logical_xor")
def logical_xor(x: Operand, y: Operand) -> Any:
    return torch.logical_xor(is_not_zero(x), is_not_zero(y))


@complex_of("aten::isnan")
def isnan(x: Parts) -> Any:
    return x.real.isnan() | x.imag.isnan()


@complex_of("aten::isinf")
def isinf(x: Parts) -> Any:
    return x.real.isinf() | x.imag.isinf()


@complex_of("aten::isfinite")
def isfinite(x: Parts) -> Any:
    return x.real.isfinite() & x.imag.isfinite()
