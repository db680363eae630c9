"""torchvision's operators for detection: non-maximum suppression, RoI align and deformable convolution."""

from __future__ import annotations

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.registry import lowering
from onnx_parity.exporter.lowering.values.value import Value


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
    images = g.squeeze(g.slice(rois, [1], [0], [1]), [1])
    # torchvision's implementation in Python takes operands of different dtypes.
    common = torch.promote_types(input.dtype, rois.dtype)
    averages = g.roi_align(
        g.cast(input, common),
        g.cast(g.slice(rois, [1], [1], [5]), common),
        g.cast(images, torch.int64),
        (pooled_height, pooled_width),
        spatial_scale,
        max(sampling_ratio, 0),
        aligned,
    )
    return g.cast(averages, input.dtype)


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
