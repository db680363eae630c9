"""Pooling of quantized tensors."""

from __future__ import annotations

from onnx_parity.exporter.kinds.quantized import keeps_scale, rounds_to_scale

keeps_scale("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices")
rounds_to_scale(
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"
)
