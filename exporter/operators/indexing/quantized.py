"""Parts of quantized tensors."""

from __future__ import annotations

from onnx_parity.exporter.kinds.quantized import keeps_scale

keeps_scale("select", "narrow", "slice")
