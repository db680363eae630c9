"""Arithmetic of quantized tensors."""

from __future__ import annotations

import torch

from onnx_parity.exporter.kinds.quantized import computes_floats

computes_floats("add")(torch.add)
computes_floats("mul")(torch.mul)
