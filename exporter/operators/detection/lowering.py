"""torchvision's operators for detection: non-maximum suppression, RoI align and deformable convolution."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import product, shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("torchvision::nms")
def nms(g: Graph, dets: Value, scores: Value, iou_threshold: float) -> Value:
    """The indices of the boxes that overlap no box of a higher score by more than the threshold, best first"""
    boxes = g.unsqueeze(g.cast(dets, torch.float32), [0])
    of_one_class = g.unsqueeze(g.cast(scores, torch.float32), [0, 1])
    most = g.const([torch.iinfo(torch.int64).max], torch.int64)
    # Rows of (batch, class, box). The order of corners and of axes does not change how much boxes overlap.
    kept = g.op("NonMaxSuppression", boxes, of_one_class, most, g.const([iou_threshold], torch.float32))
    return g.squeeze(g.op("Gather", kept, g.const([2], torch.int64), axis_i=1), [1])


@lowering("torchvision::roi_align")
def roi_align(
    g: Graph,
    input: Value,
    rois: Value,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Value:
    """Means of bilinear samples of `input` over the cells of a grid in each box (image, x1, y1, x2, y2)"""
    # torchvision's implementation in Python takes operands of different dtypes.
    common = torch.promote_types(input.dtype, rois.dtype)
    cells = (pooled_height, pooled_width)
    if sampling_ratio > 0 and not g.can_roi_align(common, aligned=aligned):
        computed = common if common is torch.float64 else torch.float32
        averages = _roi_align_written_out(
            g, g.cast(input, computed), g.cast(rois, computed), cells, spatial_scale, sampling_ratio, aligned
        )
        return g.cast(averages, input.dtype)
    images = g.squeeze(g.slice(rois, [1], [0], [1]), [1])
    boxes = g.cast(g.slice(rois, [1], [1], [5]), common)
    if common is torch.float64:
        # The attribute for the scale is a float32.
        boxes, spatial_scale = g.op("Mul", boxes, spatial_scale), 1.0
    averages = g.roi_align(
        g.cast(input, common), boxes, g.cast(images, torch.int64), cells, spatial_scale, max(sampling_ratio, 0), aligned
    )
    return g.cast(averages, input.dtype)


def _roi_align_written_out(
    g: Graph, image: Value, rois: Value, cells: tuple[int, int], scale: float, samples: int, aligned: bool
) -> Value:
    """RoI align as one Gather of pixels and one product with their weights.

    A cell has `samples` points along each axis, and each point lies between two pixels there. So a cell is a weighted
    sum of `(2 * samples) ** 2` pixels. If their number depended on the size of each box, most would be padding.
    """
    batch, channels, *sides = image.sizes
    count = rois.sizes[0]
    if any(isinstance(size, int) and size == 0 for size in sides):  # There is no pixel to read.
        return g.full([count, channels, *cells], 0.0, image.dtype)
    corners = g.op("Mul", g.slice(rois, [1], [1], [5]), scale)
    if aligned:
        corners = g.op("Sub", corners, 0.5)
    corners = shaped(corners, [count, 4])
    taps = 2 * samples
    # The axes are boxes, rows of cells, columns of cells, taps along rows, and taps along columns.
    rows, row_weights = _taps(g, corners, 1, sides[0], cells[0], samples, aligned, [count, cells[0], 1, taps, 1])
    columns, weights = _taps(g, corners, 0, sides[1], cells[1], samples, aligned, [count, 1, cells[1], 1, taps])
    images = g.reshape(g.cast(g.slice(rois, [1], [0], [1]), torch.int64), [count, 1, 1, 1, 1])
    all_cells, all_taps = product(cells), taps * taps
    index = shaped(g.flat_index([images, rows, columns], [batch, *sides]), [count, *cells, taps, taps])
    weights = g.op("Mul", row_weights, weights)
    pixels = g.reshape(g.transpose(image, [0, 2, 3, 1]), [product([batch, *sides]), channels])
    read = g.op("Gather", pixels, g.reshape(index, [count, all_cells, all_taps]), axis_i=0)
    means = g.op("MatMul", g.reshape(weights, [count, all_cells, 1, all_taps]), read)
    means = g.transpose(shaped(means, [count, all_cells, 1, channels]), [0, 3, 1, 2])
    return g.reshape(means, [count, channels, *cells])


def _taps(
    g: Graph, corners: Value, axis: int, size: Size, cells: int, samples: int, aligned: bool, shape: Sequence[Size]
) -> tuple[Value, Value]:
    """The pixels that the cells of each box read along an axis (0 for x, 1 for y), and their weights, in this shape."""
    dtype = corners.dtype
    all_points = [corners.sizes[0], cells * samples]
    start = g.slice(corners, [1], [axis], [axis + 1])
    extent = g.op("Sub", g.slice(corners, [1], [axis + 2], [axis + 3]), start)
    if not aligned:
        extent = g.extreme("Max", extent, g.const(1, dtype))
    places = (torch.arange(cells * samples, dtype=torch.float64) + 0.5) / (cells * samples)
    points = g.op("Add", start, g.op("Mul", extent, g.const(places.to(dtype), dtype)))
    zero, last = g.const(0, torch.int64), g.scalar(size - 1, torch.int64)
    low = g.extreme("Max", g.extreme("Min", g.cast(g.op("Floor", points), torch.int64), last), zero)
    high = g.extreme("Min", g.op("Add", low, 1), last)
    # Less than a pixel outside of the image, a point has the value at the border; further away it has 0.
    outside = g.op("Or", g.less(points, g.const(-1, dtype)), g.greater(points, g.scalar(size, dtype)))
    share = g.op("Mul", g.cast(g.op("Not", outside), dtype), 1 / samples)
    past_low = g.clip(g.op("Sub", points, g.cast(low, dtype)), 0, 1)
    high_share = g.op("Mul", share, past_low)
    pairs = (low, high), (g.op("Sub", share, high_share), high_share)
    index, weights = (
        g.reshape(g.op("Concat", *(g.unsqueeze(shaped(each, all_points), [2]) for each in pair), axis_i=2), shape)
        for pair in pairs
    )
    return index, weights


@lowering("torchvision::deform_conv2d")
def deform_conv2d(
    g: Graph, input: Value, weight: Value, offset: Value, mask: Value, bias: Value, stride_h: int, stride_w: int,
    pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
) -> Value:  # fmt: skip
    """A convolution that reads each element at an offset of its own, scaled by a mask if there is one"""
    g.require_opset(19, "ONNX has DeformConv from opset 19 on")
    return g.op(
        "DeformConv", input, weight, offset, bias, mask if use_mask else None, kernel_shape_i=list(weight.sizes[2:]),
        strides_i=[stride_h, stride_w], pads_i=[pad_h, pad_w, pad_h, pad_w], dilations_i=[dilation_h, dilation_w],
        group_i=groups, offset_group_i=offset_groups,
    )  # fmt: skip
