"""Normalizations of quantized tensors."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.kinds.quantized import computes_floats

computes_floats("layer_norm")(F.layer_norm)
computes_floats("group_norm")(F.group_norm)


@computes_floats("instance_norm")
def instance_norm(x: torch.Tensor, weight: Any, bias: Any, epsilon: float) -> torch.Tensor:
    return F.instance_norm(x, None, None, weight, bias, True, 0.0, epsilon)


@computes_floats(*(f"batch_norm{axes}" for axes in ("", "1d", "2d", "3d")))
def batch_norm(x: torch.Tensor, weight: Any, bias: Any, mean: Any, variance: Any, epsilon: float) -> torch.Tensor:
    return F.batch_norm(x, mean, variance, weight, bias, False, 0.0, epsilon)
