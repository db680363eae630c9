"""The results of rounding to a grid of quantized numbers."""

from __future__ import annotations

import torch

from onnx_parity.exporter.registry.results import result_of


@result_of(
    "aten::fake_quantize_per_tensor_affine_cachemask",
    "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    "aten::fake_quantize_per_channel_affine_cachemask",
    why="torch has no fake kernel for it",
    static=False,
)
def fake_quantized(self: torch.Tensor, *options: object) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(self), torch.empty_like(self, dtype=torch.bool)
