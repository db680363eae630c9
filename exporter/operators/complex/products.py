"""Products of complex matrices: four real products, or two if one of the factors is real."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.dispatch.composites import whole
from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, complex_of
from onnx_parity.exporter.operators.complex.arithmetic import product, sum_of

_aten = torch.ops.aten


def _multiplied(x: Operand, y: Operand, multiply: Callable[..., Any]) -> Operand:
    """A product that is linear in both factors."""
    if not isinstance(x, Parts):
        return Parts(multiply(x, y.real), multiply(x, y.imag)) if isinstance(y, Parts) else multiply(x, y)
    if not isinstance(y, Parts):
        return Parts(multiply(x.real, y), multiply(x.imag, y))
    real = multiply(x.real, y.real) - multiply(x.imag, y.imag)
    return Parts(real, multiply(x.real, y.imag) + multiply(x.imag, y.real))


def _matmul(x: Any, y: Any) -> Any:
    return whole(_aten.matmul.default)(x, y)


@complex_of(_aten.matmul.default, _aten.mm.default, _aten.bmm.default, _aten.mv.default, _aten.dot.default)
def matmul(x: Operand, y: Operand) -> Operand:
    return _multiplied(x, y, _matmul)


@complex_of(_aten.vdot.default)
def vdot(x: Operand, y: Operand) -> Operand:
    return matmul(Parts(x.real, -x.imag) if isinstance(x, Parts) else x, y)


@complex_of(_aten.linear.default)
def linear(x: Operand, weight: Operand, bias: Operand | None = None) -> Operand:
    turned = Parts(weight.real.mT, weight.imag.mT) if isinstance(weight, Parts) else weight.mT  # type: ignore[union-attr]
    result = matmul(x, turned)
    return result if bias is None else sum_of(result, bias)


@complex_of(_aten.addmm.default, _aten.addmv.default, _aten.baddbmm.default)
def added(x: Operand, first: Operand, second: Operand, beta: Operand = 1, alpha: Operand = 1) -> Operand:
    result = product(matmul(first, second), alpha)
    is_zero = not isinstance(beta, Parts) and beta == 0
    return result if is_zero else sum_of(result, product(x, beta))


@complex_of(_aten.addbmm.default)
def addbmm(x: Operand, first: Operand, second: Operand, beta: Operand = 1, alpha: Operand = 1) -> Operand:
    batches = matmul(first, second)
    total = Parts(*(part.sum(0) for part in batches)) if isinstance(batches, Parts) else batches
    result = product(total, alpha)
    return sum_of(result, product(x, beta))


@complex_of(_aten.convolution.default)
def convolution(x: Operand, weight: Operand, bias: Operand | None, *options: Any) -> Operand:
    result = _multiplied(x, weight, lambda a, b: _aten.convolution.default(a, b, None, *options))
    if bias is None:
        return result
    rank = result.real.dim() if isinstance(result, Parts) else result.dim()  # type: ignore[union-attr]
    shape = [-1, *[1] * (rank - 2)]
    spread = Parts(*(part.reshape(shape) for part in bias)) if isinstance(bias, Parts) else bias.reshape(shape)  # type: ignore[union-attr]
    return sum_of(result, spread)
