"""Products of matrices in 8 bits, and the results of rounding to a grid of quantized numbers."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.operators.quantization.packed_weights import unpack_weights
from onnx_parity.exporter.recording.evaluate import outside_of_recording
from onnx_parity.exporter.registry.recorded import decomposition_of
from onnx_parity.exporter.registry.results import result_of

__all__ = ["product_of_rounded"]


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
    return product_of_rounded(X, *unpack_weights(W_prepack), reduce_range)


def product_of_rounded(
    X: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, reduce_range: bool
) -> torch.Tensor:
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


@decomposition_of("quantized::embedding_byte")
def embedding_byte(weight: Any, indices: torch.Tensor, pruned_weights: bool = False) -> torch.Tensor:
    """Rows of integers, each with a scale and a zero point, which is a float."""
    with outside_of_recording():
        table = weight.unpack()
        parts = table.int_repr(), table.q_per_channel_zero_points(), table.q_per_channel_scales()
        ints, zero_points, scales = (each.reshape(len(table), -1) for each in parts)
        zero_points, scales = zero_points.float(), scales.float()
    embedding = torch.nn.functional.embedding
    return (embedding(indices, ints).float() - embedding(indices, zero_points)) * embedding(indices, scales)


# --- observers --------------------------------------------------------------------------------------------------------


@decomposition_of("aten::_fused_moving_avg_obs_fq_helper_functional")
def observe_and_quantize(
    self: torch.Tensor, observer_on: torch.Tensor, fake_quant_on: torch.Tensor, running_min: torch.Tensor,
    running_max: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, averaging_const: float, quant_min: int,
    quant_max: int, ch_axis: int, per_row_fake_quant: bool = False, symmetric_quant: bool = False,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """Rounds to a grid that follows from averages of the least and the largest values, which are buffers of a module.

    Whether it averages, and whether it rounds, are buffers too.
    """
    if observer_on.item():
        rows = self.movedim(ch_axis, 0).flatten(1) if per_row_fake_quant else self.reshape(1, -1)
        low, high = torch.aminmax(rows, dim=1)
        running_min = _averaged(running_min, low, averaging_const)
        running_max = _averaged(running_max, high, averaging_const)
    mask = torch.ones_like(self, dtype=torch.bool)
    if not fake_quant_on.item():
        return self.clone(), mask, running_min, running_max, scale, zero_point
    exact, start = _grid(running_min, running_max, quant_min, quant_max, symmetric_quant)
    size = list((running_min if per_row_fake_quant else scale).shape)
    grid = exact.reshape(size).to(scale.dtype), start.reshape(size).to(torch.int32)
    if per_row_fake_quant:
        output = torch.fake_quantize_per_channel_affine(self, *grid, ch_axis, quant_min, quant_max)
    else:
        output = torch.fake_quantize_per_tensor_affine(self, *grid, quant_min, quant_max)
    if observer_on.item():
        scale, zero_point = grid[0], grid[1].to(zero_point.dtype)
    # Otherwise they are what they were: that they are computed is no state.
    return output, mask, running_min, running_max, scale, zero_point


def _averaged(running: torch.Tensor, seen: torch.Tensor, share: float) -> torch.Tensor:
    """An average that begins with the first value that is seen."""
    if not running.numel():
        return seen
    seen = seen.reshape(running.shape)
    return torch.where(running.isinf(), seen, running + share * (seen - running))


def _grid(
    low: torch.Tensor, high: torch.Tensor, quant_min: int, quant_max: int, symmetric: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The scale and the zero point of a grid on which 0 lies, in float64."""
    low, high = low.double(), high.double()
    steps = quant_max - quant_min
    has_both = (low < 0) & (high > 0) & symmetric
    below, above = steps // 2 + 1, steps // 2
    widest = torch.where(-low / below > high / above, -low / below, high / above)
    low = torch.where(has_both, (-widest * below).float().double(), low)
    high = torch.where(has_both, (widest * above).float().double(), high)
    # Choices are folded if the limits are known, as they are once a model is trained. `clamp` is not.
    low, high = torch.where(low < 0, low, 0.0), torch.where(high > 0, high, 0.0)
    exact = (high - low) / steps
    exact = torch.where(exact.float() > 0, exact, _SCALE_OF_ZEROS)
    is_nearer = abs(quant_min) + low / exact < abs(quant_max) - high / exact
    start = torch.where(is_nearer, quant_min - low / exact, quant_max - high / exact)
    start = torch.where(has_both, (quant_min + quant_max) / 2, start)
    start = torch.where(start < quant_min, float(quant_min), torch.where(start > quant_max, float(quant_max), start))
    return torch.where(exact < _SMALLEST_SCALE, _SMALLEST_SCALE, exact), start.round()


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
