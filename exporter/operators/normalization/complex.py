"""Normalizations of complex tensors."""

from __future__ import annotations

import torch

from onnx_parity.exporter.kinds.complex_arithmetic import divided, product
from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, complex_of, parts_of
from onnx_parity.exporter.operators.elementwise.complex import sqrt


@complex_of("aten::rms_norm")
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
