"""Convolutions, of floats, and what is like them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from onnx_parity.harness.onnx_node import Array, call, definition, drawn, node
from onnx_parity.op_cases.onnx.windows import padding_of, size_of_window


def _pairs(padding: Sequence[tuple[int, int]]) -> list[int]:
    """The padding in the order of torch, from the last axis to the first."""
    return [each for pair in reversed(padding) for each in pair]


def convolve(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> torch.Tensor:
    axes = x.dim() - 2
    kernel = kernel_shape or list(w.shape[2:])
    by, apart = list(strides or [1] * axes), list(dilations or [1] * axes)
    padding = padding_of(x.shape[2:], kernel, by, apart, pads, auto_pad)
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[axes]
    padded = F.pad(x, _pairs(padding))
    if not x.numel():
        sizes = [(size - size_of_window(width, each)) // stride + 1
                 for size, width, each, stride in zip(padded.shape[2:], kernel, apart, by, strict=True)]  # fmt: skip
        return x.new_zeros([x.shape[0], w.shape[0], *sizes])
    made: torch.Tensor = function(padded, w, bias, stride=by, dilation=apart, groups=group)
    return made


_CONVOLUTIONS = (
    call((1, 2, 4, 5), (3, 2, 2, 3)),
    call((2, 2, 4, 4), (3, 2, 3, 3), (3,), pads=[1, 1, 1, 1]),
    call((1, 2, 5, 5), (2, 2, 3, 3), strides=[2, 1], pads=[0, 1, 2, 0]),
    call((1, 1, 6, 6), (2, 1, 2, 2), dilations=[2, 3]),
    call((1, 4, 3, 3), (4, 2, 2, 2), (4,), group=2, kernel_shape=[2, 2]),
    call((1, 3, 4, 4), (3, 1, 3, 3), group=3),
    call((1, 1, 5, 4), (1, 1, 2, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    call((1, 1, 5, 4), (1, 1, 2, 3), auto_pad="SAME_LOWER", strides=[2, 1]),
    call((1, 1, 5, 4), (1, 1, 2, 3), auto_pad="VALID"),
    call((1, 2, 5), (3, 2, 3), (3,)),
    call((1, 1, 3, 3, 3), (2, 1, 2, 2, 2)),
    call((0, 2, 4, 4), (3, 2, 2, 2)),
    call((1, 1, 1, 1), (1, 1, 1, 1)),
)
conv = node("Conv", convolve, *_CONVOLUTIONS)


def convolve_transposed(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    auto_pad: str,
    dilations: Sequence[int] | None = None,
    group: int,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> torch.Tensor:
    """Without any padding, each axis has `stride * (size - 1) + window` elements; padding cuts that."""
    axes = x.dim() - 2
    by, apart = list(strides or [1] * axes), list(dilations or [1] * axes)
    more = list(output_padding or [0] * axes)
    function = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[axes]
    whole = function(x, w, bias, stride=by, groups=group, dilation=apart)
    whole = F.pad(whole, _pairs([(0, each) for each in more]))
    if bias is not None and any(more):
        # What is added at the end has the bias too.
        bare = F.pad(
            function(x, w, None, stride=by, groups=group, dilation=apart), _pairs([(0, each) for each in more])
        )
        whole = bare + bias.reshape(-1, *[1] * axes)
    if output_shape is None and auto_pad.startswith("SAME"):
        output_shape = [size * stride for size, stride in zip(x.shape[2:], by, strict=True)]
    if output_shape is None:
        given = list(pads or [0] * (2 * axes))
        cut = list(zip(given[:axes], given[axes:], strict=True))
    else:
        cut = []
        for size, wanted in zip(whole.shape[2:], list(output_shape)[-axes:], strict=True):
            half = (size - wanted) // 2
            first = half if auto_pad == "SAME_UPPER" else size - wanted - half
            cut.append((first, size - wanted - first))
    return F.pad(whole, _pairs([(-low, -high) for low, high in cut]))


conv_transpose = node(
    "ConvTranspose",
    convolve_transposed,
    call((1, 2, 3, 3), (2, 3, 2, 2)),
    call((0, 2, 3, 3), (2, 3, 2, 2)),
    call((1, 2, 3, 3), (2, 3, 3, 3), (3,), strides=[2, 2], pads=[1, 1, 1, 1]),
    call((1, 1, 3, 3), (1, 1, 3, 3), strides=[2, 2], output_padding=[1, 1], pads=[1, 1, 1, 1]),
    call((1, 1, 2, 3), (1, 1, 2, 2), dilations=[2, 1]),
    call((1, 4, 2, 2), (4, 1, 2, 2), group=2, kernel_shape=[2, 2]),
    call((1, 1, 3, 3), (1, 1, 3, 3), strides=[2, 2], output_shape=[6, 6]),
    call((1, 1, 3, 3), (1, 1, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER"),
    call((1, 1, 3, 3), (1, 1, 3, 3), strides=[2, 2], auto_pad="SAME_LOWER"),
    call((1, 1, 3, 3), (1, 1, 2, 2), auto_pad="VALID"),
    call((1, 2, 4), (2, 1, 3)),
    call((1, 1, 1, 1), (1, 1, 1, 1)),
)


@definition
def convolve_deformed(
    x: Array, w: Array, offset: Array, bias: Array | None = None, mask: Array | None = None, *, group: int,
    offset_group: int, dilations: Any = None, kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Array:  # fmt: skip
    """Each element of a window is read at its place and an offset, with weights of the four elements around it."""
    down, along = strides or (1, 1)
    down_apart, along_apart = dilations or (1, 1)
    top, left = (pads or (0, 0, 0, 0))[:2]
    rows, columns = kernel_shape or w.shape[2:]
    batch, channels = x.shape[:2]
    offsets = offset.reshape(batch, offset_group, rows, columns, 2, *offset.shape[2:])
    weights = np.ones_like(offsets[:, :, :, :, 0]) if mask is None else mask.reshape(offsets[:, :, :, :, 0].shape)
    made = np.zeros((batch, w.shape[0], *offset.shape[2:]))
    for number, channel, row, column, y, z in np.ndindex(batch, channels, rows, columns, *offset.shape[2:]):
        mine = channel // (channels // offset_group)
        moved = offsets[number, mine, row, column, :, y, z]
        value = _read_between(x[number, channel], y * down - top + row * down_apart + moved[0],
                              z * along - left + column * along_apart + moved[1])  # fmt: skip
        filters = slice(*(w.shape[0] // group * (channel // w.shape[1] + each) for each in (0, 1)))
        made[number, filters, y, z] += w[filters, channel % w.shape[1], row, column] * value * weights[
            number, mine, row, column, y, z]  # fmt: skip
    return made if bias is None else made + bias[:, None, None]


def _read_between(image: Array, y: float, x: float) -> float:
    """The element between four others, each of which is 0 outside of the image."""
    top, left = int(np.floor(y)), int(np.floor(x))
    return float(
        sum(
            image[i, j] * (1 - abs(y - i)) * (1 - abs(x - j))
            for i in (top, top + 1)
            for j in (left, left + 1)
            if 0 <= i < image.shape[0] and 0 <= j < image.shape[1]
        )
    )


_OFFSETS = drawn((1, 8, 2, 2), -0.9, 0.9)
deform_conv = node(
    "DeformConv",
    convolve_deformed,
    call((1, 1, 3, 3), (1, 1, 2, 2), _OFFSETS, kernel_shape=[2, 2], pads=[0, 0, 0, 0]),
    call((1, 2, 3, 3), (2, 2, 2, 2), _OFFSETS, (2,)),
    call((0, 2, 3, 3), (2, 2, 2, 2), (0, 8, 2, 2)),
    call((1, 1, 3, 3), (1, 1, 2, 2), _OFFSETS, None, drawn((1, 4, 2, 2), 0.0, 1.0)),
    call((1, 2, 3, 3), (2, 1, 2, 2), drawn((1, 16, 2, 2), -0.9, 0.9), group=2, offset_group=2),
    call((1, 1, 3, 3), (1, 1, 2, 2), drawn((1, 8, 4, 4), -0.9, 0.9), pads=[1, 1, 1, 1]),
    call((1, 1, 5, 5), (1, 1, 2, 2), _OFFSETS, strides=[2, 2], dilations=[2, 2]),
)


@definition
def fold(
    x: Array, image_shape: Array, block_shape: Array, *, dilations: Any = None, pads: Any = None, strides: Any = None
) -> Array:
    """Each column is a block at its place in the image; where blocks overlap, they are added."""
    rank = len(image_shape)
    apart, by, around = dilations or [1] * rank, strides or [1] * rank, pads or [0] * 2 * rank
    padded = [int(size) + around[axis] + around[axis + rank] for axis, size in enumerate(image_shape)]
    steps = [
        (size - apart[axis] * (int(block_shape[axis]) - 1) - 1) // by[axis] + 1 for axis, size in enumerate(padded)
    ]
    channels = x.shape[1] // int(np.prod(block_shape))
    blocks = x.reshape(len(x), channels, *map(int, block_shape), *steps)
    made = np.full((len(x), blocks.shape[1], *padded), "" if x.dtype.kind == "O" else 0, x.dtype)
    for place in np.ndindex(*map(int, block_shape)):
        taken = tuple(slice(at * apart[axis], at * apart[axis] + by[axis] * (steps[axis] - 1) + 1, by[axis])
                      for axis, at in enumerate(place))  # fmt: skip
        made[(slice(None), slice(None), *taken)] += blocks[(slice(None), slice(None), *place)]
    kept = tuple(slice(around[axis], size - around[axis + rank]) for axis, size in enumerate(padded))
    return np.asarray(made[(slice(None), slice(None), *kept)])


col2im = node(
    "Col2Im",
    fold,
    call((1, 5, 5), [5, 5], [1, 5]),
    call((2, 8, 4), [4, 4], [2, 2], strides=[2, 2]),
    call((1, 4, 9), [4, 4], [2, 2]),
    call((1, 4, 4), [4, 4], [2, 2], dilations=[2, 2]),
    call((1, 4, 16), [3, 3], [2, 2], pads=[1, 1, 1, 1]),
    call((1, 8, 8), [3, 3, 3], [2, 2, 2]),
    call((1, 2, 5), [6], [2], pads=[0, 1], dilations=[2]),
    call((0, 4, 9), [4, 4], [2, 2]),
    where=lambda types: not any(each in types["T"] for each in ("string", "bool", "complex")),
)


col2im_of_others = node(
    "Col2Im",
    fold,
    call((2, 8, 4), [4, 4], [2, 2], strides=[2, 2]),
    where=lambda types: any(each in types["T"] for each in ("string", "bool", "complex")),
    exact=True,
)


def convolve_causally(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None = None,
    past: torch.Tensor | None = None,
    *,
    activation: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each channel is convolved with what was before it; the state is what a next call needs of it."""
    before = w.shape[2] - 1
    padded = F.pad(x, [before, 0]) if past is None else torch.cat([past, x], 2)
    made = F.conv1d(padded, w, bias, groups=x.shape[1])
    return (made if activation == "none" else F.silu(made)), padded[:, :, padded.shape[2] - before :]


causal_conv_with_state = node(
    "CausalConvWithState",
    convolve_causally,
    call((2, 3, 4), (3, 1, 3), (3,), (2, 3, 2)),
    call((2, 3, 4), (3, 1, 3)),
    call((0, 3, 4), (3, 1, 3)),
    call((1, 2, 1), (2, 1, 3), None, (1, 2, 2), activation="silu"),
    call((1, 2, 4), (2, 1, 2), (2,), activation="swish"),
    call((1, 2, 3), (2, 1, 1)),
)
