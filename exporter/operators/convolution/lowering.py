"""Convolutions and transposed convolutions over any number of spatial axes."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.convolution.convolution_as_matmul import convolved, convolved_backwards
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.recorded import instead_of
from onnx_parity.exporter.sizes.defined_where import defined_where


@lowering("aten::convolution")
def convolution(
    g: Graph, input: Value, weight: Value, bias: Value | None, stride: list[int], padding: list[int],
    dilation: list[int], transposed: bool, output_padding: list[Size], groups: int,
) -> Value:  # fmt: skip
    axes = weight.rank - 2
    stride, padding, dilation = spread(stride, axes), spread(padding, axes), spread(dilation, axes)
    extra = output_padding * axes if len(output_padding) == 1 else output_padding
    if not g.has_kernel("ConvTranspose" if transposed else "Conv", input.dtype):
        counts = g.out.shape[-axes:]
        x, unbatched = batched(g, input, axes)
        if transposed:
            y = convolved_backwards(g, x, weight, stride, padding, dilation, groups, extra, counts)
        else:
            y = convolved(g, x, weight, stride, padding, dilation, groups, counts)
        y = y if bias is None else g.op("Add", y, _per_channel(g, bias, axes))
        return g.squeeze(y, [0]) if unbatched else y
    shared: dict[str, Any] = {
        "kernel_shape_i": weight.sizes[2:],
        "strides_i": stride,
        "dilations_i": dilation,
        "group_i": groups,
    }
    if not transposed:
        g.note_occupied(g.out.shape[-axes:])  # torch refuses images that are smaller than a filter.
        operands = [input, weight, *([] if bias is None else [bias])]
        conv: Value = g.op("Conv", *operands, **shared, pads_i=[*padding, *padding])
        return conv
    # Those of a dynamic `output_size` are symbols. Fewer elements are the first of more.
    most = [
        each if isinstance(each, int) else max(pair) - 1 for each, *pair in zip(extra, stride, dilation, strict=True)
    ]
    longer = _transposed(g, input, weight, bias, shared, padding, most)
    if all(isinstance(each, int) for each in extra):
        return longer
    outer, sizes = g.out.shape[:-axes], g.out.shape[-axes:]
    longer_sizes = [size - few + many for size, few, many in zip(sizes, extra, most, strict=True)]
    return g.slice(shaped(longer, [*outer, *longer_sizes]), list(range(-axes, 0)), [0] * axes, sizes)


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


def spread(numbers: list[int] | int, axes: int) -> list[int]:
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
