"""Padding of complex tensors."""

from __future__ import annotations

import torch

from onnx_parity.exporter.dispatch.composites import whole
from onnx_parity.exporter.kinds.complex_parts import Parts, by_parts, complex_of

_aten = torch.ops.aten

by_parts("aten::constant_pad_nd", data=("self", "value"))


@complex_of("aten::_pad_circular")
def pad_circular(x: Parts, pad: list[int]) -> Parts:
    pads = whole(_aten._pad_circular.default)
    return Parts(pads(x.real, pad), pads(x.imag, pad))
