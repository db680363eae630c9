"""Reductions of quantized tensors."""

from __future__ import annotations

from onnx_parity.exporter.kinds.quantized import keeps_scale, rounds_to_scale

keeps_scale("amax", "amin")
rounds_to_scale("mean")
