"""Arithmetic of complex tensors."""

from __future__ import annotations

from onnx_parity.exporter.kinds.complex_arithmetic import divided, product, sum_of
from onnx_parity.exporter.kinds.complex_parts import Operand, complex_of

#: The places of operands: the first two arguments, or three of them.
_OPERANDS = range(3)


@complex_of("aten::add.Tensor", "aten::add.Scalar", promotes=_OPERANDS)
def add(x: Operand, y: Operand, alpha: Operand = 1) -> Operand:
    return sum_of(x, y, alpha)


@complex_of("aten::sub.Tensor", "aten::sub.Scalar", promotes=_OPERANDS)
def sub(x: Operand, y: Operand, alpha: Operand = 1) -> Operand:
    return sum_of(x, product(y, alpha), -1)


@complex_of("aten::rsub.Tensor", "aten::rsub.Scalar", promotes=_OPERANDS)
def rsub(x: Operand, y: Operand, alpha: Operand = 1) -> Operand:
    return sum_of(y, product(x, alpha), -1)


@complex_of("aten::mul.Tensor", "aten::mul.Scalar", promotes=_OPERANDS)
def mul(x: Operand, y: Operand) -> Operand:
    return product(x, y)


@complex_of("aten::div.Tensor", "aten::div.Scalar", promotes=_OPERANDS)
def div(x: Operand, y: Operand) -> Operand:
    return divided(x, y)


@complex_of("aten::addcmul", promotes=_OPERANDS)
def addcmul(x: Operand, tensor1: Operand, tensor2: Operand, value: Operand = 1) -> Operand:
    return sum_of(x, product(tensor1, tensor2), value)


@complex_of("aten::addcdiv", promotes=_OPERANDS)
def addcdiv(x: Operand, tensor1: Operand, tensor2: Operand, value: Operand = 1) -> Operand:
    return sum_of(x, divided(tensor1, tensor2), value)


@complex_of("aten::lerp.Tensor", "aten::lerp.Scalar", promotes=_OPERANDS)
def lerp(x: Operand, end: Operand, weight: Operand) -> Operand:
    return sum_of(x, product(sum_of(end, x, -1), weight))
