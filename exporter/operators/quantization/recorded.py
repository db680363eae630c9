"""Products of matrices in 8 bits, and the results of rounding to a grid of quantized numbers."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.operators.quantization.packed_weights import unpack_weights
from onnx_parity.exporter.recording.evaluate import outside_of_recording
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


#: The least scale that torch gives a tensor, and that of zeros alone.
_SMALLEST_SCALE = 6.1e-5
_SCALE_OF_ZEROS = 0.1


@decomposition_of("quantized::linear_dynamic")
def linear_dynamic(X: torch.Tensor, W_prepack: Any, reduce_range: bool = False) -> torch.Tensor:
    """A product whose input is rounded to the integers that span its values, in 7 bits if `reduce_range`, or else in 8.

    Its weight stays integers in the model.
    """
    weight, bias = unpack_weights(W_prepack)
    most = 127 if reduce_range else 255
    # The span always holds 0, which an integer stands for.
    low, high = (each.double() for each in torch.aminmax(torch.cat([X.reshape(-1), X.new_zeros(1)])))
    exact = (high - low) / most
    exact = torch.where(exact.float() > 0, exact, _SCALE_OF_ZEROS)
    zero_point = (-low / exact).clamp(0, most).round().float()
    scale = exact.clamp(min=_SMALLEST_SCALE).float()
    rounded = (torch.round(X / scale) + zero_point).clamp(0, 255) - zero_point
    product = (rounded @ weight.t()) * scale
    return product if bias is None else product + bias


@decomposition_of("quantized::linear_relu_dynamic")
def linear_relu_dynamic(X: torch.Tensor, W_prepack: Any, reduce_range: bool = False) -> torch.Tensor:
    return linear_dynamic(X, W_prepack, reduce_range).relu()


@decomposition_of("quantized::linear_dynamic_fp16")
def linear_dynamic_fp16(X: torch.Tensor, W_prepack: Any) -> torch.Tensor:
    """A product whose weight was rounded to float16."""
    with outside_of_recording():
        weight, bias = W_prepack.unpack()
    return torch.nn.functional.linear(X, weight, bias)


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
