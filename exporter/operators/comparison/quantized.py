"""Quantized tensors within bounds."""

from __future__ import annotations

from onnx_parity.exporter.kinds.quantized import rounds_to_scale

rounds_to_scale("clamp")
