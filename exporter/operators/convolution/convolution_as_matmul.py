"""Convolutions written as MatMul, for dtypes that ONNX or onnxruntime does not convolve: integers and float64."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import product
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["convolved", "convolved_backwards"]


def convolved(
    g: Graph, x: Value, weight: Value, stride: Sequence[int], padding: Sequence[Size], dilation: Sequence[int],
    groups: int, counts: Sequence[Size],
) -> Value:  # fmt: skip
    """The windows, gathered axis by axis, times the kernel. `counts` are the spatial sizes of the result."""
    batch = x.sizes[0]
    out, each, *kernel = weight.sizes
    axes = len(kernel)
    x = g.pad(x, [0, 0, *padding], [0, 0, *padding])
    x = g.reshape(x, [batch, groups, each, *x.sizes[2:]])
    for axis in range(axes):
        taps = g.op("Mul", g.unsqueeze(g.iota(kernel[axis]), [0]), dilation[axis])
        starts = g.op("Mul", g.unsqueeze(g.iota(counts[axis]), [1]), stride[axis])
        x = g.op("Gather", x, g.op("Add", starts, taps), axis_i=3 + 2 * axis)
    # (batch, group, channel, window, tap, window, tap, ...) to (batch, group, windows, channel and taps).
    windows, taps_of = [3 + 2 * axis for axis in range(axes)], [4 + 2 * axis for axis in range(axes)]
    x = g.transpose(x, [0, 1, *windows, 2, *taps_of])
    x = g.reshape(x, [batch, groups, product(counts), product([each, *kernel])])
    matrix = g.transpose(g.reshape(weight, [groups, out // groups, product([each, *kernel])]), [0, 2, 1])
    y = g.transpose(g.matmul(x, matrix), [0, 1, 3, 2])
    return g.reshape(y, [batch, out, *counts])


def convolved_backwards(
    g: Graph, x: Value, weight: Value, stride: Sequence[int], padding: Sequence[Size], dilation: Sequence[int],
    groups: int, extra: Sequence[Size], counts: Sequence[Size],
) -> Value:  # fmt: skip
    """A transposed convolution: the input with zeros between its elements, convolved with the flipped kernel."""
    channels, out, *kernel = weight.sizes
    before: list[Size] = [0, 0]
    after: list[Size] = [0, 0]
    for axis, (step, size) in enumerate(zip(stride, kernel, strict=True)):
        reach = dilation[axis] * (size - 1) - padding[axis]
        before.append(reach)
        after.append(reach + extra[axis] - (step - 1))
        x = _spread_out(g, x, 2 + axis, step)
    x = g.pad(x, before, after)
    flipped = g.transpose(
        g.reshape(weight, [groups, channels // groups, out, *kernel]), [0, 2, 1, *range(3, 3 + len(kernel))]
    )
    flipped = g.reshape(flipped, [groups * out, channels // groups, *kernel])
    for axis, size in enumerate(kernel):
        backwards = g.op("Sub", g.scalar(size - 1, torch.int64), g.iota(size))
        flipped = g.op("Gather", flipped, backwards, axis_i=2 + axis)
    flipped = g.reshape(flipped, [groups * out, channels // groups, *kernel])
    ones = [1] * len(kernel)
    return convolved(g, x, flipped, ones, [0] * len(kernel), dilation, groups, counts)


def _spread_out(g: Graph, x: Value, axis: int, step: int) -> Value:
    """`x` with step - 1 zeros after each element of an axis."""
    if step == 1:
        return x
    sizes = [*x.sizes[: axis + 1], 1, *x.sizes[axis + 1 :]]
    after = [0] * len(sizes)
    after[axis + 1] = step - 1
    spread = g.pad(g.reshape(x, sizes), [0] * len(sizes), after)
    return g.reshape(spread, [*x.sizes[:axis], x.sizes[axis] * step, *x.sizes[axis + 1 :]])
