"""Convolutions of complex tensors."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.kinds.complex_arithmetic import product_by, sum_of
from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, complex_of

_aten = torch.ops.aten


@complex_of("aten::convolution")
def convolution(x: Operand, weight: Operand, bias: Operand | None, *options: Any) -> Operand:
    result = product_by(x, weight, lambda a, b: _aten.convolution.default(a, b, None, *options))
    if bias is None:
        return result
    rank = result.real.dim() if isinstance(result, Parts) else result.dim()  # type: ignore[union-attr]
    shape = [-1, *[1] * (rank - 2)]
    spread = Parts(*(part.reshape(shape) for part in bias)) if isinstance(bias, Parts) else bias.reshape(shape)  # type: ignore[union-attr]
    return sum_of(result, spread)
