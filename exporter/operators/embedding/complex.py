"""Embeddings whose weights are complex."""

from __future__ import annotations

from onnx_parity.exporter.kinds.complex_parts import by_parts

by_parts("aten::embedding")
