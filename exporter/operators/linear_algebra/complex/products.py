"""Products of complex matrices: four real products, or two if one of the factors is real."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.dispatch.composites import whole
from onnx_parity.exporter.kinds.complex_arithmetic import product, product_by, sum_of
from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, by_parts, complex_of

_aten = torch.ops.aten

by_parts("aten::trace")


def _matmul(x: Any, y: Any) -> Any:
    return whole(_aten.matmul.default)(x, y)


@complex_of("aten::matmul", "aten::mm", "aten::bmm", "aten::mv", "aten::dot")
def matmul(x: Operand, y: Operand) -> Operand:
    return product_by(x, y, _matmul)


@complex_of("aten::vdot")
def vdot(x: Operand, y: Operand) -> Operand:
    return matmul(Parts(x.real, -x.imag) if isinstance(x, Parts) else x, y)


@complex_of("aten::linear")
def linear(x: Operand, weight: Operand, bias: Operand | None = None) -> Operand:
    turned = Parts(weight.real.mT, weight.imag.mT) if isinstance(weight, Parts) else weight.mT  # type: ignore[union-attr]
    result = matmul(x, turned)
    return result if bias is None else sum_of(result, bias)


@complex_of("aten::addmm", "aten::addmv", "aten::baddbmm")
def added(x: Operand, first: Operand, second: Operand, beta: Operand = 1, alpha: Operand = 1) -> Operand:
    result = product(matmul(first, second), alpha)
    is_zero = not isinstance(beta, Parts) and beta == 0
    return result if is_zero else sum_of(result, product(x, beta))


@complex_of("aten::addbmm")
def addbmm(x: Operand, first: Operand, second: Operand, beta: Operand = 1, alpha: Operand = 1) -> Operand:
    batches = matmul(first, second)
    total = Parts(*(part.sum(0) for part in batches)) if isinstance(batches, Parts) else batches
    result = product(total, alpha)
    return sum_of(result, product(x, beta))
