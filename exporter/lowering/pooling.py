"""Pooling over windows: average, maximum, adaptive.

torch and ONNX disagree on what `ceil_mode` divides by, so it is never left to the runtime where sizes are known: the
overhang of the last window is written into `pads`, which AveragePool does not count.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from exporter.capture.graph import Size
from exporter.lowering.builder import Graph
from exporter.lowering.convolution import spread
from exporter.lowering.registry import lowering
from exporter.lowering.values import Value


class _Windows:
    """The geometry of a pooling: per spatial axis its kernel, stride, padding, dilation and overhang."""

    def __init__(
        self, g: Graph, x: Value, axes: int, kernel: list[int], stride: list[int] | None, padding: list[int] | int,
        dilation: list[int] | int = 1, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        self.axes = axes
        self.sizes = x.sizes[-axes:]
        self.kernel = spread(kernel, axes)
        self.stride = spread(stride or self.kernel, axes)
        self.padding = spread(padding, axes)
        self.dilation = spread(dilation, axes)
        self.overhang = [0] * axes
        #: Sizes that vary leave the rounding to the runtime.
        self.ceil_at_run_time = False
        if ceil_mode:
            for axis, (size, count) in enumerate(zip(x.sizes[-axes:], g.out.shape[-axes:], strict=True)):
                if not (isinstance(size, int) and isinstance(count, int)):
                    self.ceil_at_run_time = True
                    continue
                reach = (count - 1) * self.stride[axis] + self.dilation[axis] * (self.kernel[axis] - 1) + 1
                self.overhang[axis] = max(0, reach - size - 2 * self.padding[axis])

    def pads(self, padding: list[int]) -> list[int]:
        return [*padding, *(p + o for p, o in zip(padding, self.overhang, strict=True))]

    def ceil_attribute(self, g: Graph) -> int | None:
        if self.ceil_at_run_time and g.opset < 10:
            g.unsupported("ceil_mode over an axis that varies", since=10)
        return 1 if self.ceil_at_run_time else None


@lowering("aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d")
def avg_pool(
    g: Graph, self: Value, kernel_size: list[int], stride: list[int] | None = None, padding: list[int] | int = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    axes = int(g.node.op._schema.name[-2])
    x, unbatched = _batched(g, self, axes)
    windows = _Windows(g, self, axes, kernel_size, stride, padding, ceil_mode=ceil_mode)
    counts_padding = count_include_pad or divisor_override is not None
    padding = windows.padding
    ceil = windows.ceil_attribute(g)
    if counts_padding and any(padding) and (any(windows.overhang) or ceil):
        # torch counts its own padding but not the overhang: padding becomes real zeros, overhang stays in pads.
        x = g.pad(x, [0, 0, *padding], [0, 0, *padding])
        padding = [0] * axes
    pooled = g.op(
        "AveragePool", x, kernel_shape_i=windows.kernel, strides_i=windows.stride, pads_i=windows.pads(padding),
        count_include_pad_i=int(counts_padding and any(padding)), ceil_mode_i=ceil,
    )  # fmt: skip
    if divisor_override is not None:
        if any(windows.overhang) or ceil:
            pooled = g.op("Mul", pooled, _window_sizes(g, windows, x, padding, ceil))
            pooled = g.op("Div", pooled, divisor_override)
        else:
            pooled = g.op("Mul", pooled, math.prod(windows.kernel) / divisor_override)
    return g.squeeze(pooled, [0]) if unbatched else pooled


def _window_sizes(g: Graph, windows: _Windows, x: Value, padding: list[int], ceil: int | None) -> Value:
    """How many elements each window averaged: its size, less what hangs over the end."""
    spatial: list[Size] = list(g.out.shape[-windows.axes :])
    counts = torch.ones([1, 1, *[1] * windows.axes])
    for axis, count in enumerate(spatial):
        if not isinstance(count, int):
            g.unsupported("divisor_override with ceil_mode over an axis that varies")
        covered = torch.full((count,), float(windows.kernel[axis]))
        covered[-1] -= windows.overhang[axis]
        counts = counts * covered.reshape([-1 if a == axis else 1 for a in range(windows.axes)])
    return g.const(counts.to(x.dtype))


def _batched(g: Graph, x: Value, axes: int) -> tuple[Value, bool]:
    """torch pools a single sample too; ONNX wants a batch."""
    return (g.unsqueeze(x, [0]), True) if x.rank == axes + 1 else (x, False)


@lowering("aten::max_pool1d", "aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices")
def max_pool(
    g: Graph, self: Value, kernel_size: list[int], stride: list[int] | None = None, padding: list[int] | int = 0,
    dilation: list[int] | int = 1, ceil_mode: bool = False,
) -> Value | tuple[Value, ...]:  # fmt: skip
    axes = int(g.node.op._schema.name.partition("pool")[2][0])
    x, unbatched = _batched(g, self, axes)
    windows = _Windows(g, self, axes, kernel_size, stride, padding, dilation, ceil_mode)
    wants_indices = len(g.node.outputs) > 1 and g.is_used(1)
    if any(d != 1 for d in windows.dilation) and g.opset < 10:
        if wants_indices:
            g.unsupported("the indices of a dilated max_pool", since=10)
        results = [_dilated_max(g, x, windows)]
    else:
        results = _max_pool(g, x, windows, wants_indices)
    if unbatched:
        results = [g.squeeze(result, [0]) for result in results]
    return results[0] if len(results) == 1 else tuple(results)


def _max_pool(g: Graph, x: Value, windows: _Windows, wants_indices: bool) -> list[Value]:
    attributes: dict[str, Any] = {
        "kernel_shape_i": windows.kernel,
        "strides_i": windows.stride,
        "pads_i": windows.pads(windows.padding),
        "dilations_i": windows.dilation if any(d != 1 for d in windows.dilation) else None,
        "ceil_mode_i": windows.ceil_attribute(g),
    }
    if not wants_indices:
        return [g.op("MaxPool", x, **attributes)]
    if g.opset < 8:
        g.unsupported("the indices of a max_pool", since=8)
    pooled, indices = g.op("MaxPool", x, **attributes, outputs=2)
    # ONNX counts through the whole tensor, torch within each plane.
    plane: Size = 1
    for size in windows.sizes:
        plane = plane * size
    length = g.scalar(plane, torch.int64)
    within = g.op("Sub", indices, g.op("Mul", g.op("Div", indices, length), length))
    return [pooled, within]


def _dilated_max(g: Graph, x: Value, windows: _Windows) -> Value:
    """Before opset 10 MaxPool knows no dilation: the maximum over one strided slice for each tap of the kernel."""
    padding = windows.padding
    high = [p + o for p, o in zip(padding, windows.overhang, strict=True)]
    x = g.pad(x, [0, 0, *padding], [0, 0, *high], value=-math.inf)
    padded = [size + low + end for size, low, end in zip(windows.sizes, padding, high, strict=True)]
    for axis, count in enumerate(g.out.shape[-windows.axes :]):
        x.shape = (1, 1, *padded)
        parts = []
        for tap in range(windows.kernel[axis]):
            start = tap * windows.dilation[axis]
            stop = start + (count - 1) * windows.stride[axis] + 1
            parts.append(g.slice(x, [axis + 2], [start], [stop], [windows.stride[axis]]))
        x = g.op("Max", *parts) if len(parts) > 1 else parts[0]
        padded[axis] = count
    x.shape = None
    return x


@lowering("aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d", "aten::adaptive_avg_pool1d")
def adaptive_avg_pool(g: Graph, self: Value, output_size: list[int]) -> Value:
    axes = len(output_size)
    sizes = self.sizes[-axes:]
    if tuple(sizes) == tuple(output_size):
        return self
    if not all(isinstance(size, int) for size in sizes):
        if all(wanted == 1 for wanted in output_size):
            return g.reduce("Mean", self, list(range(self.rank - axes, self.rank)), True)
        g.unsupported("adaptive pooling of an axis that varies to a size other than 1")
    known = [int(size) for size in sizes]
    if all(size % wanted == 0 for size, wanted in zip(known, output_size, strict=True)):
        x, unbatched = _batched(g, self, axes)
        kernel = [size // wanted for size, wanted in zip(known, output_size, strict=True)]
        pooled = g.op("AveragePool", x, kernel_shape_i=kernel, strides_i=kernel)
        return g.squeeze(pooled, [0]) if unbatched else pooled
    x = self
    for number, (size, wanted) in enumerate(zip(known, output_size, strict=True)):
        x = _average_bins(g, x, self.rank, self.rank - axes + number, size, wanted)
    return x


def _average_bins(g: Graph, x: Value, rank: int, axis: int, size: int, wanted: int) -> Value:
    """Bins of unequal width along one axis: a product with the matrix that averages each bin."""
    if size == wanted:
        return x
    matrix = torch.zeros(size, wanted, dtype=x.dtype)
    for number in range(wanted):
        start, stop = number * size // wanted, -(-(number + 1) * size // wanted)
        matrix[start:stop, number] = 1 / (stop - start)
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    return g.transpose(g.op("MatMul", g.transpose(x, swap), g.const(matrix)), swap)
