"""Products of matrices in 8 bits, and the results of rounding to a grid of quantized numbers."""

from __future__ import annotations

import torch

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.registry.recorded import decomposition_of
from onnx_parity.exporter.registry.results import result_of


@decomposition_of("aten::_scaled_mm")
def scaled_mm(
    self: torch.Tensor, mat2: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
    bias: torch.Tensor | None = None, scale_result: torch.Tensor | None = None, out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> torch.Tensor:  # fmt: skip
    """The product of matrices in 8 bits, each with the scale of the matrix, or of each of its rows or columns."""
    dtype = self.dtype if out_dtype is None else out_dtype
    if scale_result is not None and dtype.itemsize == 1:
        raise refused_here(
            "torch._scaled_mm with a scale_result for a result of 8 bits is not exported: leave it out, and scale an "
            "operand instead, by scale_a or scale_b"
        )
    product = (self.float() * scale_a) @ (mat2.float() * scale_b)
    if bias is not None:
        product = product + bias
    return product.to(dtype)


# --- results ----------------------------------------------------------------------------------------------------------


@result_of(
    "aten::fake_quantize_per_tensor_affine_cachemask",
    "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    "aten::fake_quantize_per_channel_affine_cachemask",
    why="torch has no fake kernel for it",
    static=False,
)
def fake_quantized(self: torch.Tensor, *options: object) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(self), torch.empty_like(self, dtype=torch.bool)
