"""What autograd calls to differentiate an operator, where torch has it as a kernel only."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

import torch

from onnx_parity.exporter.graph.graph import Size, same_size
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.registry.recorded import any_size_is_dynamic, decomposition_of, instead_of, named
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

_aten = torch.ops.aten


@decomposition_of("aten::convolution_backward")
def convolution_backward(
    grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, bias_sizes: Any, stride: list[int],
    padding: list[int], dilation: list[int], transposed: bool, output_padding: list[int], groups: int,
    output_mask: list[bool],
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The gradient of the input is the convolution in the other direction, with the same weight."""
    wants_input, wants_weight, wants_bias = output_mask
    options = stride, padding, dilation
    of_input = of_weight = of_bias = None
    if wants_input and transposed:
        none = [0] * len(stride)
        made = _aten.convolution.default(grad_output, weight, None, *options, False, none, groups)
        of_input = _cut(made, input.shape)
    elif wants_input:
        more = [each - 1 for each in stride]
        made = _aten.convolution.default(grad_output, weight, None, *options, True, more, groups)
        of_input = _cut(made, input.shape)
    if wants_weight:
        moved, kept = (grad_output, input) if transposed else (input, grad_output)
        of_weight = _of_weight(moved, kept, weight.shape, *options, groups)
    if wants_bias:
        of_bias = grad_output.sum([0, *range(2, grad_output.dim())])
    return of_input, of_weight, of_bias


def _of_weight(
    moved: torch.Tensor, kept: torch.Tensor, shape: Sequence[int], stride: list[int], padding: list[int],
    dilation: list[int], groups: int,
) -> torch.Tensor:  # fmt: skip
    """A convolution whose channels are the samples: `moved` is passed over by `kept`, one step for each weight."""
    batch, axes = moved.shape[0], moved.dim() - 2
    # The channels of each group become samples, and the samples the channels of the group.
    split = [batch, groups, moved.shape[1] // groups, *moved.shape[2:]]
    order = [2, 1, 0, *range(3, 3 + axes)]
    samples = moved.reshape(split).permute(order).flatten(1, 2)
    kernels = kept.transpose(0, 1)
    made = _aten.convolution.default(samples, kernels, None, dilation, padding, stride, False, [0] * axes, groups)
    return _cut(made.transpose(0, 1), shape)


def _cut(x: torch.Tensor, shape: Sequence[Size]) -> torch.Tensor:
    """The beginning of each axis after the second: a window that did not fit left some elements at the end unused."""
    for axis, (size, wanted) in enumerate(itertools.islice(zip(x.shape, shape, strict=True), 2, None), 2):
        if not same_size(size, wanted):
            x = x.narrow(axis, 0, wanted)
    return x


# --- pooling and resampling -------------------------------------------------------------------------------------------


@decomposition_of("aten::max_pool2d_with_indices_backward")
def max_pool2d_backward(
    grad_output: torch.Tensor, self: torch.Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Each gradient is added where the maximum of its window was."""
    planes = self.shape[:-2]
    empty = torch.zeros([*planes, self.shape[-2] * self.shape[-1]], dtype=self.dtype, device=self.device)
    return empty.scatter_add(-1, indices.flatten(-2), grad_output.flatten(-2)).reshape(self.shape)


@decomposition_of("aten::avg_pool2d_backward", "aten::avg_pool3d_backward")
def avg_pool_backward(
    grad_output: torch.Tensor, self: torch.Tensor, kernel_size: list[int], stride: list[int], padding: list[int],
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> torch.Tensor:  # fmt: skip
    rank = len(kernel_size)
    kernels, steps, pads = (_of_rank(each, rank) for each in (kernel_size, stride or kernel_size, padding))
    counted = (count_include_pad, None if divisor_override is None else 1)
    matrices = [
        _aten.avg_pool2d(_unit(self, rank - axis)[None], [1, k], [1, step], [0, pad], ceil_mode, *counted)[0]
        for axis, (k, step, pad) in enumerate(zip(kernels, steps, pads, strict=True))
    ]
    grad = _back(grad_output, matrices)
    return grad if divisor_override is None else grad / divisor_override


@decomposition_of("aten::_adaptive_avg_pool2d_backward", "aten::_adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(grad_output: torch.Tensor, self: torch.Tensor) -> torch.Tensor:
    rank = grad_output.dim() - 2
    sizes = grad_output.shape[-rank:]
    return _back(grad_output, [torch.adaptive_avg_pool1d(_unit(self, rank - n), size) for n, size in enumerate(sizes)])


#: Each resampling, and its form in two dimensions, which with a size of 1 before the last axis resamples that alone.
_IN_TWO_DIMENSIONS = {
    "upsample_nearest1d": "upsample_nearest2d",
    "upsample_nearest2d": "upsample_nearest2d",
    "upsample_nearest3d": "upsample_nearest2d",
    "_upsample_nearest_exact1d": "_upsample_nearest_exact2d",
    "_upsample_nearest_exact2d": "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d": "_upsample_nearest_exact2d",
    "upsample_linear1d": "upsample_bilinear2d",
    "upsample_bilinear2d": "upsample_bilinear2d",
    "upsample_trilinear3d": "upsample_bilinear2d",
    "upsample_bicubic2d": "upsample_bicubic2d",
}


@decomposition_of(*(f"aten::{name}_backward" for name in _IN_TWO_DIMENSIONS), gives_operator=True)
def resample_backward(
    op: OpOverload, grad_output: torch.Tensor, output_size: Sequence[Size], input_size: Sequence[Size], *rest: Any
) -> Any:
    name = op.overloadpacket.__name__.removesuffix("_backward")
    resample = named(f"aten::{_IN_TWO_DIMENSIONS[name]}")
    # All but the nearest ones take `align_corners` first.
    corners, scales = ((), rest) if "nearest" in name else (rest[:1], rest[1:])
    rank = len(output_size)
    matrices = []
    for axis, (size, scale) in enumerate(itertools.zip_longest(output_size, scales)):
        unit = torch.eye(input_size[axis - rank], dtype=grad_output.dtype, device=grad_output.device)
        matrices.append(resample(unit[None, :, None], [1, size], *corners, None, scale)[0, :, 0])
    return _back(grad_output, matrices)


def _unit(like: torch.Tensor, from_the_end: int) -> torch.Tensor:
    """The unit matrix of an axis, which a linear operator on that axis makes its matrix."""
    return torch.eye(like.shape[-from_the_end], dtype=like.dtype, device=like.device)


def _back(grad: torch.Tensor, matrices: Sequence[torch.Tensor]) -> torch.Tensor:
    """The product of each of the last axes with a matrix, of which a row says what becomes of an element."""
    for number, matrix in enumerate(reversed(matrices), 1):
        grad = (grad.movedim(-number, -1) @ matrix.transpose(0, 1)).movedim(-1, -number)
    return grad


def _of_rank(numbers: Sequence[int], rank: int) -> list[int]:
    return list(numbers) * rank if len(numbers) == 1 else list(numbers)


# --- padding ----------------------------------------------------------------------------------------------------------


@decomposition_of(
    *(f"aten::{mode}_pad{axes}d_backward" for mode in ("reflection", "replication") for axes in (1, 2, 3)),
    gives_operator=True,
)
def pad_backward(op: OpOverload, grad_output: torch.Tensor, self: torch.Tensor, padding: Sequence[Size]) -> Any:
    """The gradient of an element is added where the element came from."""
    grad = grad_output
    for axis in range(len(padding) // 2):
        size, before, after = self.shape[-1 - axis], padding[2 * axis], padding[2 * axis + 1]
        places = torch.arange(-before, cast("int", size + after), device=grad.device)
        if "reflection" in op.name():
            places = (size - 1) - ((size - 1) - places.abs()).abs()
        else:
            places = places.clamp(min=0).clamp(max=size - 1)
        sizes = list(grad.shape)
        sizes[-1 - axis] = size
        grad = grad.new_zeros(sizes).index_add(-1 - axis, places, grad)
    return grad


# --- gathering and running products -----------------------------------------------------------------------------------


@instead_of("aten::gather_backward", why="torch's own takes plain sizes only")
def gather_backward(grad: torch.Tensor, self: torch.Tensor, dim: int, index: torch.Tensor, _: bool) -> torch.Tensor:
    return torch.zeros_like(self).scatter_add(dim, index, grad)


@instead_of("aten::masked_select_backward", why="torch's own takes plain sizes only")
def masked_select_backward(grad: torch.Tensor, input: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    whole, places = torch.broadcast_tensors(input, mask)
    return torch.zeros_like(whole).masked_scatter(places, grad)


@instead_of("aten::cumprod_backward", where=any_size_is_dynamic, why="torch computes one element after the other")
def cumprod_backward(grad: torch.Tensor, input: torch.Tensor, dim: int, output: torch.Tensor) -> torch.Tensor:
    """The product up to an element j, without an element k up to it, is that of factors of which k is 1"""
    x, g = input.movedim(dim, -1), grad.movedim(dim, -1)
    places = torch.arange(x.shape[-1], device=x.device)
    without = torch.where(places == places.unsqueeze(-1), 1, x.unsqueeze(-2)).cumprod(-1)
    counted = torch.where(places >= places.unsqueeze(-1), without * g.unsqueeze(-2), 0)
    return counted.sum(-1).movedim(-1, dim)


# --- distances --------------------------------------------------------------------------------------------------------


@decomposition_of("aten::_cdist_backward")
def cdist_backward(grad: torch.Tensor, x1: torch.Tensor, x2: torch.Tensor, p: float, cdist: torch.Tensor) -> Any:
    """Of a distance of 0 the derivative is 0."""
    if p not in (1.0, 2.0):
        return NotImplemented
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if p == 1:
        return (grad.unsqueeze(-1) * difference.sign()).sum(-2)
    factor = torch.where(cdist == 0, 0, grad / torch.where(cdist == 0, 1, cdist))
    return (factor.unsqueeze(-1) * difference).sum(-2)


# --- tangents ---------------------------------------------------------------------------------------------------------


@decomposition_of("aten::_efficientzerotensor", why="a tangent of 0, which torch represents without memory")
def zero_tangent(size: Sequence[Size], **options: Any) -> torch.Tensor:
    return torch.zeros(size, dtype=options.get("dtype"), device=options.get("device"))


@decomposition_of("aten::_new_zeros_with_same_feature_meta")
def zeros_for_a_tangent(self: torch.Tensor, other: torch.Tensor, *, self_num_batch_dims: int = 0) -> torch.Tensor:
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
