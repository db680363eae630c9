"""Operators that torch has as kernels only, recorded as the operators that they can be computed with."""

from __future__ import annotations

import itertools
import math
from typing import Any, cast

import torch
import torch.nn.functional as F

from onnx_parity.exporter.graph.graph import Size, same_size
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.registry.recorded import decomposition_of, instead_of

_aten = torch.ops.aten

_KERNEL_ONLY = "torch has a kernel for it and no decomposition"


@decomposition_of("aten::max_pool2d_with_indices_backward", why=_KERNEL_ONLY)
def _max_pool2d_backward(
    grad_output: torch.Tensor, self: torch.Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Each gradient is added where the maximum of its window was."""
    planes = self.shape[:-2]
    empty = torch.zeros([*planes, self.shape[-2] * self.shape[-1]], dtype=self.dtype, device=self.device)
    return empty.scatter_add(-1, indices.flatten(-2), grad_output.flatten(-2)).reshape(self.shape)


@decomposition_of("aten::_new_zeros_with_same_feature_meta", why=_KERNEL_ONLY)
def _zeros_for_a_tangent(self: torch.Tensor, other: torch.Tensor, *, self_num_batch_dims: int = 0) -> torch.Tensor:
    """Zeros with the shape and strides of `other`, which may be a slice, and the batch axes of `self` before them."""
    outside = self_num_batch_dims
    laid = [axis for axis, size in enumerate(other.shape) if not same_size(size, 1)]
    order = sorted(laid, key=other.stride, reverse=True)
    sizes, steps = [other.shape[axis] for axis in order], [other.stride(axis) for axis in order]
    inside = [*steps[:-1], 1]
    if 0 in steps or any(outer % inner for outer, inner in itertools.pairwise(inside)):
        raise refused_here(
            "a forward derivative is taken at an expanded tensor, or at every nth slice of one: clone it"
        )
    # An axis has as many elements in memory as fit into one step of the axis outside of it. A slice uses some of them.
    in_memory = [*sizes[:1], *(outer // inner for outer, inner in itertools.pairwise(inside))]
    if len(order) == 1:
        in_memory = [sizes[0] * steps[0]]
    zeros = self.new_zeros([*self.shape[:outside], *in_memory], dtype=other.dtype)
    for axis, size in enumerate(sizes):
        step = steps[-1] if axis == len(order) - 1 else 1
        zeros = zeros[(slice(None),) * (outside + axis) + (slice(0, size * step, step),)]
    zeros = zeros.permute(*range(outside), *(outside + order.index(axis) for axis in laid))
    for axis in range(other.dim()):
        zeros = zeros if axis in laid else zeros.unsqueeze(outside + axis)
    return zeros


@decomposition_of("aten::_batch_norm_with_update_functional", why="it is the batch norm of training")
def _batch_norm_with_update(
    input: torch.Tensor, weight: Any, bias: Any, running_mean: torch.Tensor, running_var: torch.Tensor,
    momentum: float, eps: float,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    arguments = (input, weight, bias, running_mean, running_var, True, momentum, eps)
    output, mean, rstd, new_mean, new_var = _aten._native_batch_norm_legit_functional.default(*arguments)
    reserve = torch.empty(0, dtype=torch.uint8, device=input.device)
    return output, mean, rstd, reserve, new_mean, new_var


_OTHER_DTYPE = "torch's fake kernel gives the statistics of halves another dtype than the kernel"


def _batch_norm_of_halves(op: Any, input: Any, parameters: list[Any], statistics: list[Any], *options: float) -> Any:
    """Computed in float32. The statistics of the batch get the dtype of the parameters."""
    given = next((each.dtype for each in (*parameters, *statistics) if each is not None), input.dtype)
    if given is torch.float32 or input.dtype not in (torch.float16, torch.bfloat16):
        return NotImplemented
    wide = [None if each is None else each.float() for each in (input, *parameters, *statistics)]
    return tuple(result.to(given) for result in op(*wide, True, *options))


@instead_of("aten::_native_batch_norm_legit.no_stats", why=_OTHER_DTYPE)
def _batch_norm_without_statistics(
    input: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    op = _aten._native_batch_norm_legit.no_stats
    return _batch_norm_of_halves(op, input, [weight, bias], [], momentum, eps) if training else NotImplemented


@instead_of("aten::_native_batch_norm_legit", why=_OTHER_DTYPE)
def _batch_norm_with_statistics(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float,
    eps: float,
) -> Any:  # fmt: skip
    statistics = [running_mean, running_var]
    if not training:  # Which writes to nothing.
        no_training = _aten._native_batch_norm_legit_no_training.default
        return no_training(input, weight, bias, *statistics, momentum, eps)
    op = _aten._native_batch_norm_legit_functional.default
    results = _batch_norm_of_halves(op, input, [weight, bias], statistics, momentum, eps)
    if results is NotImplemented:
        return NotImplemented
    for before, after in zip(statistics, results[3:], strict=True):
        before.copy_(after)
    return results[:3]


@decomposition_of("aten::mode", why=_KERNEL_ONLY)
def _mode(self: torch.Tensor, dim: int = -1, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The least of the most frequent elements, and its last index. All pairs of elements are compared."""
    if self.dim() == 0:
        return self.clone(), torch.zeros_like(self, dtype=torch.int64)
    x = self.movedim(dim, -1)
    same = x.unsqueeze(-1) == x.unsqueeze(-2)
    is_nan = x != x
    if x.is_floating_point():
        same = same | (is_nan.unsqueeze(-1) & is_nan.unsqueeze(-2))
    counts = same.sum(-1)
    is_most = counts == counts.amax(-1, True)
    known = is_most & ~is_nan
    largest = x.new_full((), True if x.dtype is torch.bool else _largest(x.dtype))
    least = torch.where(known, x, largest).to(torch.uint8 if x.dtype is torch.bool else x.dtype).amin(-1, True)
    value = least.to(x.dtype)
    found = known & (x == value)
    if x.is_floating_point():
        only_nan = ~known.any(-1, True)
        value = torch.where(only_nan, torch.nan, value)
        found = found | (only_nan & is_nan)
    index = torch.where(found, torch.arange(x.shape[-1], device=x.device), -1).amax(-1, True)
    results = [each.movedim(-1, dim) if keepdim else each.squeeze(-1) for each in (value, index)]
    return results[0], results[1]


def _largest(dtype: torch.dtype) -> float | int:
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


# --- segments ---------------------------------------------------------------------------------------------------------

#: For each way of reducing, what an empty segment has.
_NEUTRAL = {"sum": 0.0, "mean": 0.0, "max": float("-inf"), "min": float("inf"), "prod": 1.0}


@decomposition_of("aten::segment_reduce", why=_KERNEL_ONLY)
def _segment_reduce(
    data: torch.Tensor, reduce: str, *, lengths: torch.Tensor | None = None, indices: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None, axis: int = 0, unsafe: bool = False, initial: float | None = None,
) -> Any:  # fmt: skip
    """Every segment is a mask over the axis, under which all else is neutral."""
    if lengths is not None:
        stops = lengths.cumsum(-1)
        starts = stops - lengths
    elif offsets is not None:
        starts, stops = offsets[..., :-1], offsets[..., 1:]
    else:
        return NotImplemented
    axis = axis % data.dim()
    places = torch.arange(data.shape[axis], device=data.device)
    inside = (places >= starts.unsqueeze(-1)) & (places < stops.unsqueeze(-1))
    inside = inside.reshape([*inside.shape, *[1] * (data.dim() - axis - 1)])
    first = _NEUTRAL[reduce] if initial is None else float(initial)
    kept = torch.where(inside, data.unsqueeze(axis), _NEUTRAL[reduce])
    if reduce == "max":
        return kept.amax(axis + 1).clamp_min(first)
    if reduce == "min":
        return kept.amin(axis + 1).clamp_max(first)
    if reduce == "prod":
        return kept.prod(axis + 1) * first
    total = kept.sum(axis + 1) + first
    if reduce == "sum":
        return total
    count = inside.sum(axis + 1).to(data.dtype)
    return torch.where(count == 0, torch.nan if initial is None else first, total / count.clamp_min(1))


# --- pooling of random windows ----------------------------------------------------------------------------------------


@decomposition_of("aten::fractional_max_pool2d", "aten::fractional_max_pool3d", why=_KERNEL_ONLY)
def _fractional_max_pool(
    self: torch.Tensor, kernel_size: list[int], output_size: list[int], random_samples: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The elements of every window are gathered axis by axis; a window begins where its random sample says"""
    rank = len(output_size)
    batch, sizes = self.shape[:-rank], self.shape[-rank:]
    samples = random_samples.reshape([*batch, rank])
    values = self
    places: list[torch.Tensor] = []
    for number, (kernel, count, size) in enumerate(zip(kernel_size, output_size, sizes, strict=True)):
        # The samples of two axes are in the order of the axes in memory, those of three as the axes are.
        sample = samples[..., rank - 1 - number if rank == 2 else number]
        within = torch.arange(kernel, device=sample.device)
        taken = (_starts(sample, size, count, kernel).unsqueeze(-1) + within).flatten(-2)
        shape = [*batch, *[1] * number, count * kernel, *[1] * (rank - number - 1)]
        places.append(taken.reshape(shape))
        wide = [*batch, *values.shape[-rank:]]
        wide[len(batch) + number] = count * kernel
        values = values.gather(len(batch) + number, places[-1].expand(wide))
    index = places[0]
    for place, size in zip(places[1:], sizes[1:], strict=True):
        index = index * size + place
    split = [*batch, *itertools.chain.from_iterable(zip(output_size, kernel_size, strict=True))]
    before = len(batch)
    order = [*range(before), *range(before, before + 2 * rank, 2), *range(before + 1, before + 2 * rank, 2)]
    windows, indices = (each.reshape(split).permute(order).flatten(-rank) for each in (values, index.expand_as(values)))
    largest, where = windows.max(-1, keepdim=True)
    return largest.squeeze(-1), indices.gather(-1, where).squeeze(-1)


def _starts(sample: torch.Tensor, size: Size, count: int, kernel: int) -> torch.Tensor:
    """Where the windows begin: evenly spaced from a random place on, and the last at the end"""
    last = torch.full([*sample.shape, 1], cast("int", size) - kernel, dtype=torch.int64, device=sample.device)
    if count == 1:
        return last
    spacing = (size - kernel) / (count - 1)
    steps = torch.arange(count - 1, device=sample.device).to(sample.dtype)
    shifted = ((steps + sample.unsqueeze(-1)) * spacing).to(torch.int64)
    starts = shifted - (sample.unsqueeze(-1) * spacing).to(torch.int64)
    return torch.cat([starts, last], -1)


@decomposition_of("aten::_scaled_mm", why=_KERNEL_ONLY)
def _scaled_mm(
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


# --- fused attention --------------------------------------------------------------------------------------------------

_FUSED = "nn.MultiheadAttention and nn.TransformerEncoderLayer call it in eval mode without gradients"
#: The `mask_type` of a mask of one row for each batch. The other masks have a row for each query, or also batches and
#: heads.
MASK_OF_KEYS = 1


@decomposition_of("aten::_native_multi_head_attention", why=_FUSED)
def _native_multi_head_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, embed_dim: int, num_head: int,
    qkv_weight: torch.Tensor, qkv_bias: torch.Tensor, proj_weight: torch.Tensor, proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None, need_weights: bool = True, average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:  # fmt: skip
    """The output, and softmax(q k^T / sqrt(d)), averaged over the heads, if they are asked for."""
    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    q, k, v = (
        F.linear(each, weight, bias).unflatten(-1, (num_head, embed_dim // num_head)).transpose(1, 2)
        for each, weight, bias in parts
    )
    excluded = None if mask is None else _excluded(mask, mask_type)
    scores = q @ k.transpose(-2, -1) / math.sqrt(embed_dim // num_head)
    if excluded is not None:
        scores = scores.masked_fill(excluded, float("-inf"))
    weights = scores.softmax(-1)
    output = F.linear((weights @ v).transpose(1, 2).flatten(-2), proj_weight, proj_bias)
    if not need_weights:
        return output, None
    return output, weights.mean(1) if average_attn_weights else weights


def _excluded(mask: torch.Tensor, mask_type: int | None) -> torch.Tensor:
    """The places of the keys that are excluded, for each batch, head and query: those of a mask that are not 0."""
    mask = mask if mask.dtype is torch.bool else mask != 0
    return mask[:, None, None, :] if mask_type == MASK_OF_KEYS else mask


@decomposition_of("aten::_transformer_encoder_layer_fwd", why=_FUSED)
def _transformer_encoder_layer(
    src: torch.Tensor, embed_dim: int, num_heads: int, qkv_weight: torch.Tensor, qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor, proj_bias: torch.Tensor, use_gelu: bool, norm_first: bool, eps: float,
    norm_weight_1: torch.Tensor, norm_bias_1: torch.Tensor, norm_weight_2: torch.Tensor, norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor, ffn_bias_1: torch.Tensor, ffn_weight_2: torch.Tensor, ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None, mask_type: int | None = None,
) -> torch.Tensor:  # fmt: skip
    def attention(x: torch.Tensor) -> torch.Tensor:
        return _native_multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
        )[0]

    def feed_forward(x: torch.Tensor) -> torch.Tensor:
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

    def first_norm(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second_norm(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attention(first_norm(src))
        return x + feed_forward(second_norm(x))
    x = first_norm(src + attention(src))
    return second_norm(x + feed_forward(x))
