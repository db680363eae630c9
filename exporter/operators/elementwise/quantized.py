"""Functions of each element of quantized tensors."""

from __future__ import annotations

import torch

from onnx_parity.exporter.kinds.quantized import computes_floats, has_own_scale

has_own_scale("sigmoid", 1 / 256, 0, -128)
has_own_scale("tanh", 2 / 256, 128, 0)
computes_floats("sigmoid")(torch.sigmoid)
