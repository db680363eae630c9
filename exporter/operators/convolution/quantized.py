"""Convolutions of quantized tensors."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.kinds.quantized import computes_floats
from onnx_parity.exporter.operators.quantization.packed_weights import unpack_weights
from onnx_parity.exporter.recording.evaluate import outside_of_recording


@computes_floats(*(f"conv{kind}{axes}d" for kind in ("", "_transpose") for axes in (1, 2, 3)))
def convolution(x: torch.Tensor, packed: Any) -> torch.Tensor:
    weight, bias = unpack_weights(packed)
    with outside_of_recording():
        stride, padding, dilation = packed.stride(), packed.padding(), packed.dilation()
        extra, groups, transposed = packed.output_padding(), packed.groups(), bool(packed.transpose())
    # A convolution in one dimension is packed as one in two.
    axes = x.ndim - 2
    stride, padding, dilation, extra = (list(each)[-axes:] for each in (stride, padding, dilation, extra))
    if weight.ndim > x.ndim:
        weight = weight.squeeze(2)
    made: torch.Tensor = torch.convolution(x, weight, bias, stride, padding, dilation, transposed, extra, groups)
    return made
