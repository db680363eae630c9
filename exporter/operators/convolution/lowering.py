"""Convolutions and transposed convolutions over any number of spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from typing import Any, NamedTuple, TypeVar

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import may_be_empty, shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.convolution.convolution_as_matmul import convolved, convolved_backwards
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.recorded import instead_of
from onnx_parity.exporter.sizes.defined_where import defined_where

_Number = TypeVar("_Number", int, Size)


class _Options(NamedTuple):
    """What a convolution is given besides tensors: lists have a number for each spatial axis."""

    stride: list[int]
    padding: list[Size]
    dilation: list[int]
    transposed: bool
    #: The output elements that a transposed one adds at the end of each axis. Those of a dynamic `output_size` are
    #: symbols.
    extra: list[Size]
    groups: int

    @property
    def has_dynamic_padding(self) -> bool:
        return not all(isinstance(each, int) for each in self.padding)


@lowering("aten::convolution")
def convolution(
    g: Graph, input: Value, weight: Value, bias: Value | None, stride: list[int], padding: list[Size],
    dilation: list[int], transposed: bool, output_padding: list[Size], groups: Size,
) -> Value:  # fmt: skip
    axes = weight.rank - 2
    stride, padding, dilation, extra = (spread(each, axes) for each in (stride, padding, dilation, output_padding))
    options = _Options(stride, padding, dilation, transposed, extra, groups if isinstance(groups, int) else 1)
    if not isinstance(groups, int):
        return _of_each_group(g, input, weight, bias, options, groups)
    if not g.has_kernel("ConvTranspose" if transposed else "Conv", input.dtype):
        return _as_products(g, input, weight, bias, options)
    return _convolution(g, input, weight, bias, options)


def _of_each_group(g: Graph, input: Value, weight: Value, bias: Value | None, options: _Options, groups: Size) -> Value:
    """A Loop over the groups, of which ONNX's Conv takes a constant number only."""
    x, unbatched = batched(g, input, weight.rank - 2)
    batch, channels, *sizes = x.sizes
    counts = g.out.shape[2 - weight.rank :]
    ends = (channels // groups, weight.sizes[1]) if options.transposed else (weight.sizes[0] // groups, weight.sizes[1])
    each, out = ends if options.transposed else reversed(ends)
    parts = g.reshape(x, [batch, groups, each, *sizes])
    filters = g.reshape(weight, [groups, *ends, *weight.sizes[2:]])
    has_kernel = g.has_kernel("ConvTranspose" if options.transposed else "Conv", x.dtype)

    def step(number: Value, _: list[Value]) -> Sequence[Value]:
        part = shaped(g.op("Gather", parts, number, axis_i=1), [batch, each, *sizes])
        kernel = shaped(g.op("Gather", filters, number, axis_i=0), filters.sizes[1:])
        y = (_convolution if has_kernel else _as_products)(g, part, kernel, None, options)
        return [shaped(y, [batch, out, *counts])]

    (stacked,) = g.repeat(groups, [], step)
    y = g.transpose(stacked, [1, 0, *range(2, stacked.rank)])
    y = g.reshape(y, [batch, groups * out, *counts])
    y = y if bias is None else g.op("Add", y, _per_channel(g, bias, len(counts)))
    return g.squeeze(y, [0]) if unbatched else y


def _as_products(g: Graph, input: Value, weight: Value, bias: Value | None, options: _Options) -> Value:
    """A convolution in a dtype that the runtime does not convolve."""
    axes = weight.rank - 2
    counts = g.out.shape[-axes:]
    x, unbatched = batched(g, input, axes)
    stride, padding, dilation, transposed, extra, groups = options
    if transposed:
        y = convolved_backwards(g, x, weight, stride, padding, dilation, groups, extra, counts)
    else:
        y = convolved(g, x, weight, stride, padding, dilation, groups, counts)
    y = y if bias is None else g.op("Add", y, _per_channel(g, bias, axes))
    return g.squeeze(y, [0]) if unbatched else y


def _convolution(g: Graph, x: Value, weight: Value, bias: Value | None, options: _Options) -> Value:
    axes = weight.rank - 2
    stride, padding, dilation, transposed, extra, groups = options
    counts, kernel = g.out.shape[-axes:], weight.sizes[2:]
    shared: dict[str, Any] = {
        # Where it is dynamic, it is that of the weight.
        "kernel_shape_i": kernel if all(isinstance(size, int) for size in kernel) else None,
        "strides_i": stride,
        "dilations_i": dilation,
        "group_i": groups,
    }
    zeros: list[Size] = [0] * axes
    if not transposed:
        g.note_occupied(counts)  # torch refuses images that are smaller than a filter.
        if options.has_dynamic_padding:
            outer = [0] * (x.rank - axes)
            x, padding = g.pad(x, [*outer, *padding], [*outer, *padding]), zeros
        operands = [x, weight, *([] if bias is None else [bias])]
        conv: Value = g.op("Conv", *operands, **shared, pads_i=[*padding, *padding])
        return conv
    # Fewer elements are the first of more, and padding takes some away at both ends: all of them in an image for which
    # onnxruntime's operator refuses to return nothing.
    crops = options.has_dynamic_padding or any(may_be_empty(each, x.sizes[2:]) for each in counts)
    cropped, padding = (padding, zeros) if crops else (zeros, padding)
    most = [
        each if isinstance(each, int) else max(pair) - 1 for each, *pair in zip(extra, stride, dilation, strict=True)
    ]
    longer = _transposed(g, x, weight, bias, shared, [int(each) for each in padding], most)
    if all(isinstance(each, int) for each in extra) and not crops:
        return longer
    longer_sizes = [
        size - few + many + 2 * crop for size, few, many, crop in zip(counts, extra, most, cropped, strict=True)
    ]
    ends = [crop + size for crop, size in zip(cropped, counts, strict=True)]
    return g.slice(shaped(longer, [*g.out.shape[:-axes], *longer_sizes]), list(range(-axes, 0)), cropped, ends)


def _transposed(
    g: Graph, x: Value, weight: Value, bias: Value | None, shared: dict[str, Any], padding: list[int], extra: list[int]
) -> Value:
    """A transposed convolution with `extra` output elements at the end of each axis.

    They reduce the padding at the end, and become output_padding beyond that. onnxruntime takes an output_padding that
    is smaller than the stride, and torch one that is smaller than the stride or the dilation: the rest is a Pad.
    """
    end = [max(0, p - e) for p, e in zip(padding, extra, strict=True)]
    added = [max(0, e - p) for p, e in zip(padding, extra, strict=True)]
    shared |= {"pads_i": [*padding, *end]}
    if all(a < s for a, s in zip(added, shared["strides_i"], strict=True)):
        operands = [x, weight, *([] if bias is None else [bias])]
        y: Value = g.op("ConvTranspose", *operands, **shared, output_padding_i=added if any(added) else None)
        return y
    y = g.pad(g.op("ConvTranspose", x, weight, **shared), [0] * (2 + len(added)), [0, 0, *added])
    return y if bias is None else g.op("Add", y, _per_channel(g, bias, len(added)))


def _per_channel(g: Graph, bias: Value, axes: int) -> Value:
    return g.unsqueeze(bias, list(range(1, 1 + axes)))


@lowering("aten::conv_tbc")
def conv_tbc(g: Graph, self: Value, weight: Value, bias: Value, pad: int = 0) -> Value:
    """A convolution of (time, batch, channel) with weights (time, in, out)"""
    x, kernel = g.transpose(self, [1, 2, 0]), g.transpose(weight, [2, 1, 0])
    if g.has_kernel("Conv", self.dtype):
        return g.transpose(g.op("Conv", x, kernel, bias, pads_i=[pad, pad]), [2, 0, 1])
    y = g.op("Add", convolved(g, x, kernel, [1], [pad], [1], 1, g.out.shape[:1]), _per_channel(g, bias, 1))
    return g.transpose(y, [2, 0, 1])


def batched(g: Graph, x: Value, axes: int) -> tuple[Value, bool]:
    """`x` with a batch axis, and whether that was missing: torch takes a single sample too, ONNX does not."""
    return (g.unsqueeze(x, [0]), True) if x.rank == axes + 1 else (x, False)


def spread(numbers: list[_Number] | _Number, axes: int) -> list[_Number]:
    """One number for each axis; torch takes one number for all as well."""
    numbers = numbers if isinstance(numbers, list) else [numbers]
    return numbers * axes if len(numbers) == 1 else numbers


@instead_of("aten::_convolution", "aten::_convolution.deprecated", why="a convolution with options of the backend")
def convolution_of_backend(*args: Any) -> Any:
    return torch.ops.aten.convolution.default(*args[:9])


@instead_of("aten::convolution", why="torch's kernel returns no channels where it is given none")
def convolution_of_channels(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> Any:
    if not isinstance(input.shape[1], int):
        defined_where(input.shape[1] != 0, "PyTorch returns no channels where it is given none")
    return NotImplemented


@instead_of("aten::_convolution_mode", why="torch branches on the size of a dynamic kernel")
def convolution_of_same_size(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, stride: Any, padding: str, dilation: Any,
    groups: Any,
) -> Any:  # fmt: skip
    """With half of a window before and after each axis; of an odd number of elements, one more after it"""
    axes = weight.ndim - 2
    kernel = list(weight.shape[2:])
    if padding != "same" or all(isinstance(size, int) for size in kernel) or any(step != 1 for step in stride):
        return NotImplemented
    pairs = [
        (reach // 2, reach - reach // 2) for reach in map(mul, spread(dilation, axes), [size - 1 for size in kernel])
    ]
    padded = torch.nn.functional.pad(input, [amount for pair in reversed(pairs) for amount in pair])
    return torch.ops.aten.convolution(padded, weight, bias, stride, [0] * axes, dilation, False, [0] * axes, groups)
