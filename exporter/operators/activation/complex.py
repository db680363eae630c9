"""Activations of complex tensors."""

from __future__ import annotations

from onnx_parity.exporter.kinds.complex_arithmetic import product
from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, complex_of
from onnx_parity.exporter.operators.elementwise.complex import sigmoid


@complex_of("aten::silu")
def silu(x: Parts) -> Operand:
    return product(x, sigmoid(x))
