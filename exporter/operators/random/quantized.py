"""Dropout of quantized tensors, which has no effect in eval mode."""

from __future__ import annotations

from onnx_parity.exporter.kinds.quantized import keeps_scale

keeps_scale("dropout", "dropout1d", "dropout2d", "dropout3d")
