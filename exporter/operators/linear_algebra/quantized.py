"""Products of quantized tensors."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.kinds.quantized import computes_floats
from onnx_parity.exporter.operators.quantization.packed_weights import unpack_weights

computes_floats("matmul")(torch.matmul)


@computes_floats("linear")
def linear(x: torch.Tensor, packed: Any) -> torch.Tensor:
    return F.linear(x, *unpack_weights(packed))
