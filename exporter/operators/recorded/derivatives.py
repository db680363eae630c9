"""What autograd calls to differentiate an operator, where torch has it as a kernel only."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import torch
from torch._decomp.decompositions import _rnn_helper, gather_params, one_layer_lstm

from onnx_parity.exporter.dispatch.gradients import is_differentiated, is_seen_once
from onnx_parity.exporter.graph.graph import Size, same_size
from onnx_parity.exporter.registry.recorded import decomposition_of, instead_of, named

_aten = torch.ops.aten

_KERNEL_ONLY = "torch has a kernel for it and no decomposition"


@decomposition_of("aten::_efficientzerotensor", why="a tangent of 0, which torch represents without memory")
def _zero_tangent(size: Sequence[Size], **options: Any) -> torch.Tensor:
    return torch.zeros(size, dtype=options.get("dtype"), device=options.get("device"))


@instead_of(
    "aten::scaled_dot_product_attention",
    why="the kernels that torch chooses have derivatives that are kernels too; those of the definition are operators",
)
def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, *args: Any,
    **kwargs: Any,
) -> Any:  # fmt: skip
    if is_seen_once((query, key, value, attn_mask)):
        return NotImplemented
    if attn_mask is not None and attn_mask.dtype is torch.bool:  # The definition adds masks.
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -torch.inf)
    return _aten._scaled_dot_product_attention_math.default(query, key, value, attn_mask, *args, **kwargs)[0]


@instead_of("aten::lstm.input", why="torch chooses oneDNN's layer, whose derivative is a kernel too")
def _lstm(
    input: torch.Tensor, hx: Sequence[torch.Tensor], params: list[torch.Tensor], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    if not is_differentiated() or is_seen_once((input, hx, params)):
        return NotImplemented
    projects = hx[0].shape[2] != hx[1].shape[2]
    of_layers = gather_params(params, has_biases, projects)
    states = list(zip(*hx, strict=True))
    options = has_biases, num_layers, dropout, train, bidirectional, batch_first
    out, last = _rnn_helper(input, states, of_layers, *options, one_layer_lstm)
    return out, *(torch.stack(each, 0) for each in zip(*last, strict=True))


@decomposition_of("aten::convolution_backward", why=_KERNEL_ONLY)
def _convolution_backward(
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


@decomposition_of("aten::avg_pool2d_backward", "aten::avg_pool3d_backward", why=_KERNEL_ONLY)
def _avg_pool_backward(
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


@decomposition_of("aten::_adaptive_avg_pool2d_backward", "aten::_adaptive_avg_pool3d_backward", why=_KERNEL_ONLY)
def _adaptive_avg_pool_backward(grad_output: torch.Tensor, self: torch.Tensor) -> torch.Tensor:
    rank = grad_output.dim() - 2
    sizes = grad_output.shape[-rank:]
    return _back(grad_output, [torch.adaptive_avg_pool1d(_unit(self, rank - n), size) for n, size in enumerate(sizes)])


def _resample_backward(name: str, backward: str, aligns: bool) -> None:
    """Register the derivative of a resampling by its form for the last axis alone, with an axis of 1 before it."""

    @decomposition_of(f"aten::{backward}_backward", why=_KERNEL_ONLY)
    def gradient(grad_output: torch.Tensor, output_size: Sequence[Size], input_size: Sequence[Size], *rest: Any) -> Any:
        corners, scales = (rest[:1], rest[1:]) if aligns else ((), rest)
        rank = len(output_size)
        matrices = []
        for axis, (size, scale) in enumerate(itertools.zip_longest(output_size, scales)):
            unit = torch.eye(input_size[axis - rank], dtype=grad_output.dtype, device=grad_output.device)
            matrices.append(named(f"aten::{name}")(unit[None, :, None], [1, size], *corners, None, scale)[0, :, 0])
        return _back(grad_output, matrices)


for _name, _of_all_ranks, _aligns in (
    ("upsample_nearest2d", ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"), False),
    (
        "_upsample_nearest_exact2d",
        ("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
        False,
    ),
    ("upsample_bilinear2d", ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"), True),
    ("upsample_bicubic2d", ("upsample_bicubic2d",), True),
):
    for _resampling in _of_all_ranks:
        _resample_backward(_name, _resampling, _aligns)


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


# --- images at the points of a grid -----------------------------------------------------------------------------------

#: The parameter of the cubic convolution, as in torch.
_CUBIC_A = -0.75


@instead_of(
    "aten::grid_sampler_2d",
    "aten::grid_sampler_3d",
    why="its derivative is a kernel; those of the definition are operators",
)
def _grid_sampler(input: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool) -> Any:
    """A sum over pixels, times their weights along each axis."""
    if not is_differentiated():
        return NotImplemented
    batch, channels, *sizes = input.shape
    taps = []
    # The grid has the coordinate of the last axis first. Derivatives of unbind() are joined, and keep the sign of 0.
    for coordinate, size in zip(reversed(grid.flatten(1, -2).unbind(-1)), sizes, strict=True):
        x = (coordinate + 1) * ((size - 1 if align_corners else size) * 0.5)
        taps.append(_taps(x if align_corners else x - 0.5, size, _Sampling(len(sizes), mode, padding, align_corners)))
    pixels = input.flatten(2)
    total: Any = 0
    for chosen in itertools.product(*taps):
        place, weight, inside = torch.zeros_like(chosen[0][0], dtype=torch.int64), None, None
        for (at, share), size in zip(chosen, sizes, strict=True):
            here = (at >= 0) & (at <= size - 1)
            place = place * size + torch.where(here, at, 0).to(torch.int64)
            inside = here if inside is None else inside & here
            weight = share if weight is None else weight * share
        read = pixels.gather(2, place.unsqueeze(1).expand(-1, channels, -1))
        total = total + torch.where(inside.unsqueeze(1), read * weight.unsqueeze(1), 0)  # type: ignore[union-attr]
    return total.reshape(batch, channels, *grid.shape[1:-1])


class _Sampling(msgspec.Struct, frozen=True):
    """How an image is interpolated and continued, by torch's numbers."""

    rank: int
    mode: int
    padding: int
    align_corners: bool


def _taps(x: torch.Tensor, size: Size, how: _Sampling) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The pixels along an axis that a coordinate is interpolated from, and their weights."""
    one = torch.ones_like(x)
    if how.mode == 1:
        # The result depends on the grid, by which its derivative is 0.
        return [(_on_image(x, size, how).detach().round(), torch.where(torch.zeros_like(x, dtype=torch.bool), x, one))]
    if how.mode == 0:
        x = _on_image(x, size, how)
        low = x.detach().floor()
        return [(low, low + 1 - x), (low + 1, x - low)]
    low = x.detach().floor()
    part = x - low
    weights = (_far(part + 1), _near(part), _near(1 - part), _far(2 - part))
    return [(_on_image(low + step, size, how), weight) for step, weight in zip((-1, 0, 1, 2), weights, strict=True)]


def _near(x: torch.Tensor) -> torch.Tensor:
    return ((_CUBIC_A + 2) * x - (_CUBIC_A + 3)) * x * x + 1


def _far(x: torch.Tensor) -> torch.Tensor:
    return ((_CUBIC_A * x - 5 * _CUBIC_A) * x + 8 * _CUBIC_A) * x - 4 * _CUBIC_A


def _on_image(x: torch.Tensor, size: Size, how: _Sampling) -> torch.Tensor:
    """Coordinates on the image, or outside of it where zeros are read there. On its border the derivative is 0."""
    if how.padding == 0:
        return x
    at, sign = x.detach(), torch.ones_like(x)
    last: Any = size - 1
    if how.padding == 2:
        low = 0.0 if how.align_corners else -0.5
        # With a single pixel the span is 0: it must not be divided by, and every coordinate is that pixel.
        span: Any = torch.sym_max(last, 1) if how.align_corners else size
        away = (at - low).abs()
        turns = (away / span).floor()
        is_odd = turns.remainder(2) != 0
        sign = torch.where(is_odd ^ (at < low), -1, sign)
        rest = away - turns * span
        at = torch.where(is_odd, span - rest, rest) + low
    inside = (at > 0) & (at < last)
    # A product, so that derivatives of 0 have the signs that torch's kernels give them, and of finite coordinates.
    slope = sign * inside if how.rank == 3 else torch.where(inside, sign, 0)
    moved = x.nan_to_num(0, 0, 0) * slope
    return moved + (at.clamp(0, last) - moved.detach())


# --- distances --------------------------------------------------------------------------------------------------------


@decomposition_of("aten::_cdist_backward", why=_KERNEL_ONLY)
def _cdist_backward(grad: torch.Tensor, x1: torch.Tensor, x2: torch.Tensor, p: float, cdist: torch.Tensor) -> Any:
    """Of a distance of 0 the derivative is 0."""
    if p not in (1.0, 2.0):
        return NotImplemented
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if p == 1:
        return (grad.unsqueeze(-1) * difference.sign()).sum(-2)
    factor = torch.where(cdist == 0, 0, grad / torch.where(cdist == 0, 1, cdist))
    return (factor.unsqueeze(-1) * difference).sum(-2)
