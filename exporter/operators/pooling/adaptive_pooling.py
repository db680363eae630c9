"""Adaptive pooling, which is given the number of windows (bins) along each axis.

Bin i of n covers floor(i * size / n) to ceil((i + 1) * size / n). The bins have equal widths only where n divides size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch

from onnx_parity.exporter.dtypes import extremes
from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import product, same_size, shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.convolution.lowering import batched
from onnx_parity.exporter.operators.pooling.lowering import Windows, max_over
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d")
def adaptive_avg_pool(g: Graph, self: Value, output_size: list[Size]) -> Value:
    axes = len(output_size)
    first = self.rank - axes
    if all(same_size(wanted, 1) for wanted in output_size):
        return g.reduce("Mean", self, list(range(first, self.rank)), True)
    kernel = _even_bins(self.sizes[first:], output_size)
    if kernel is not None and g.has_kernel("AveragePool", self.dtype):
        x, unbatched = batched(g, self, axes)
        pooled = g.op("AveragePool", x, kernel_shape_i=kernel, strides_i=kernel)
        return g.squeeze(pooled, [0]) if unbatched else pooled
    x = self
    for axis, wanted in enumerate(output_size, first):
        x = _over_bins(g, x, axis, wanted, "Mean")
    return x


@lowering("aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d")
def adaptive_max_pool(g: Graph, self: Value, output_size: list[int]) -> list[Value]:
    axes = len(output_size)
    first = self.rank - axes
    wants_indices = g.is_used(1)
    kernel = _even_bins(self.sizes[first:], output_size)
    if kernel is not None:
        x, unbatched = batched(g, self, axes)
        results = max_over(g, x, Windows(g, self, axes, kernel, kernel, 0), wants_indices)
        return [g.squeeze(result, [0]) for result in results] if unbatched else results
    if not wants_indices and all(same_size(wanted, 1) for wanted in output_size):
        return [g.extreme_over("Max", self, list(range(first, self.rank)), True)]
    x = self
    indices = None
    # The last axis first, so that of equal maxima the first in row-major order is found, as in torch.
    for axis in reversed(range(first, self.rank)):
        wanted = output_size[axis - first]
        if wants_indices:
            indices = _index_of_maximum(g, x, axis, wanted, indices, self.sizes)
        x = _over_bins(g, x, axis, wanted, "Max")
    return [x] if indices is None else [x, indices]


def _even_bins(sizes: tuple[Size, ...], wanted: Sequence[Size]) -> list[int] | None:
    """The width of the bins along each axis if all bins of an axis have the same, else None."""
    widths = []
    for size, bins in zip(sizes, wanted, strict=True):
        if not (isinstance(size, int) and isinstance(bins, int) and size and size % bins == 0):
            return None
        widths.append(size // bins)
    return widths


def _over_bins(g: Graph, x: Value, axis: int, wanted: Size, how: Literal["Mean", "Max"]) -> Value:
    """The means or maxima of the bins along one axis."""
    if same_size(x.sizes[axis], wanted):
        return x
    sizes = (*x.sizes[:axis], wanted, *x.sizes[axis + 1 :])
    if same_size(wanted, 1):
        return _over(g, how, x, axis, True)
    binned, inside, width = _in_bins(g, x, axis, wanted)
    if inside is None:
        return g.squeeze(binned, [axis + 1])
    outside = 0 if how == "Mean" else extremes(x.dtype)[0]
    kept = g.where(inside, binned, g.const(outside, x.dtype))
    result = _over(g, "Sum" if how == "Mean" else "Max", kept, axis + 1, False)
    return shaped(result if how == "Max" else g.op("Div", result, g.cast(width, x.dtype)), sizes)


def _over(g: Graph, how: Literal["Mean", "Sum", "Max"], x: Value, axis: int, keepdim: bool) -> Value:
    return g.extreme_over(how, x, [axis], keepdim) if how == "Max" else g.reduce(how, x, [axis], keepdim)


def _in_bins(g: Graph, x: Value, axis: int, wanted: Size) -> tuple[Value, Value | None, Value]:
    """`x` with `axis` replaced by two, the bins and the elements of each; a mask of these elements; how many it keeps.

    If the axis or the number of bins is dynamic, the second axis is the whole axis for every bin. The mask is None if
    each bin has one element.
    """
    size = x.sizes[axis]
    trailing = [1] * (x.rank - 1 - axis)
    if isinstance(size, int) and isinstance(wanted, int):
        starts, widths = _bins(size, wanted)
        offsets = torch.arange(int(widths.max()))
        indices = (starts[:, None] + offsets[None, :]).clamp(max=size - 1)
        inside = offsets[None, :] < widths[:, None]
        binned = shaped(
            g.op("Gather", x, g.const(indices), axis_i=axis),
            (*x.sizes[:axis], *indices.shape, *x.sizes[axis + 1 :]),
        )
        width = g.const(widths.reshape(-1, *trailing))
        if len(offsets) == 1:
            return binned, None, width
        return binned, g.const(inside.reshape(*inside.shape, *trailing)), width
    length, bins, one_less = (g.scalar(each, torch.int64) for each in (size, wanted, wanted - 1))
    if not isinstance(wanted, int):  # No bins are counted from nothing, which must not be divided by 0.
        bins = g.extreme("Max", bins, g.const(1, torch.int64))
    number = g.along(wanted, 0, 2)
    start = g.op("Div", g.op("Mul", number, length), bins)
    stop = g.op("Div", g.op("Add", g.op("Mul", g.op("Add", number, 1), length), one_less), bins)
    index = g.unsqueeze(g.iota(size), [0])
    is_inside = shaped(g.op("And", g.op("Not", g.less(index, start)), g.less(index, stop)), [wanted, size])
    behind = list(range(2, 2 + len(trailing)))
    width = g.unsqueeze(g.squeeze(g.op("Sub", stop, start), [1]), list(range(1, 1 + len(trailing))))
    return g.unsqueeze(x, [axis]), g.unsqueeze(is_inside, behind), width


def _bins(size: int, wanted: int) -> tuple[torch.Tensor, torch.Tensor]:
    number = torch.arange(wanted)
    starts = number * size // wanted
    return starts, -(-(number + 1) * size // wanted) - starts


def _index_of_maximum(
    g: Graph, x: Value, axis: int, wanted: int, indices: Value | None, sizes: tuple[Size, ...]
) -> Value:
    """The index of each bin's maximum in the flattened plane, given the indices of the elements of `x` so far."""
    unchanged = same_size(x.sizes[axis], wanted)
    here = g.expand(g.along(wanted, axis, x.rank), x.sizes) if unchanged else _argmax(g, x, axis, wanted)
    if indices is None:
        return here
    before = indices if unchanged else g.gather_elements(indices, here, axis)
    return shaped(g.op("Add", g.op("Mul", here, g.scalar(product(sizes[axis + 1 :]), torch.int64)), before), here.shape)


def _argmax(g: Graph, x: Value, axis: int, wanted: int) -> Value:
    """The index along the axis of each bin's maximum."""
    sizes = (*x.sizes[:axis], wanted, *x.sizes[axis + 1 :])
    if wanted == 1:
        return shaped(_last_nan_or_first_maximum(g, x, axis, keepdim=True), sizes)
    binned, inside, _ = _in_bins(g, x, axis, wanted)
    size = x.sizes[axis]
    if inside is not None:
        binned = g.where(inside, binned, g.const(-math.inf, x.dtype))
    found = _last_nan_or_first_maximum(g, binned, axis + 1, keepdim=False)
    if isinstance(size, int):
        starts = _bins(size, wanted)[0].reshape(-1, *[1] * (x.rank - 1 - axis))
        found = g.op("Add", found, g.const(starts))
    elif inside is not None:
        # Of a bin of -inf alone, the first element that is as great may lie before the bin.
        found = g.extreme("Max", found, g.op("ArgMax", g.cast(inside, torch.int32), axis_i=1, keepdims_i=False))
    return shaped(found, sizes)


def _last_nan_or_first_maximum(g: Graph, x: Value, axis: int, keepdim: bool) -> Value:
    """torch's index: of the last NaN, or if there is none of the first of equal maxima."""
    found = g.op("ArgMax", x, axis_i=axis, keepdims_i=keepdim)
    if x.has_no_nan:
        return found
    number = g.op("Add", g.along(x.sizes[axis], axis, x.rank), 1)
    last = g.reduce("Max", g.op("Mul", g.cast(g.is_nan(x), torch.int64), number), [axis], keepdim)
    return g.where(g.cast(last, torch.bool), g.op("Sub", last, 1), found)
