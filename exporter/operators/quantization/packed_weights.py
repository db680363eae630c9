"""The packed weights of torch's quantized modules."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.kinds.quantized import dequantize
from onnx_parity.exporter.recording.evaluate import outside_of_recording

__all__ = ["unpack_weights"]


def unpack_weights(packed: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The weight, as a tensor of floats made of integers of the program, and the bias."""
    with outside_of_recording():
        weight, bias = packed.unpack()
        ints = weight.int_repr()
        if weight.qscheme() in (torch.per_channel_affine, torch.per_channel_affine_float_qparams):
            axis = weight.q_per_channel_axis()
            scale = weight.q_per_channel_scales().to(torch.float32)
            zero_point = weight.q_per_channel_zero_points().to(ints.dtype)
        else:
            axis, scale = 0, torch.tensor(weight.q_scale())
            zero_point = torch.tensor(weight.q_zero_point(), dtype=ints.dtype)
    return dequantize(ints, scale, zero_point, axis), bias
