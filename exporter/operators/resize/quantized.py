"""Quantized images in another size."""

from __future__ import annotations

from onnx_parity.exporter.kinds.quantized import rounds_to_scale

rounds_to_scale(
    "interpolate", "upsample", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_bilinear2d"
)
