"""torchvision's operators for detection: which boxes to keep, and what lies in them."""

from __future__ import annotations

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.registry import lowering
from onnx_parity.exporter.lowering.values.value import Value


@lowering("torchvision::nms")
def nms(g: Graph, dets: Value, scores: Value, iou_threshold: float) -> Value:
    """The places of boxes that overlap no better one by more than the threshold, the best first"""
    if g.opset < 10:
        g.unsupported("suppressing boxes needs NonMaxSuppression of opset 10", since=10)
    boxes = g.unsqueeze(g.cast(dets, torch.float32), [0])
    of_one_class = g.unsqueeze(g.cast(scores, torch.float32), [0, 1])
    most = g.const([torch.iinfo(torch.int64).max], torch.int64)
    # Rows of batch, class and box. Neither which corner comes first nor which axis matters to an overlap.
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
    """Averages of samples of `input`, bilinear, over the cells of a grid in each box (image, x1, y1, x2, y2)"""
    if g.opset < 10:
        g.unsupported("averages over boxes need RoiAlign of opset 10", since=10)
    if aligned and g.opset < 16:
        g.unsupported("aligned=True needs RoiAlign of opset 16", since=16)
    images = g.squeeze(g.slice(rois, [1], [0], [1]), [1])
    # Before opset 16 it knew one mode, and no name for it.
    mode = None if g.opset < 16 else "half_pixel" if aligned else "output_half_pixel"
    # torchvision's kernel in plain torch takes the two in different dtypes.
    common = torch.promote_types(input.dtype, rois.dtype)
    averages = g.op(
        "RoiAlign",
        g.cast(input, common),
        g.cast(g.slice(rois, [1], [1], [5]), common),
        g.cast(images, torch.int64),
        spatial_scale_f=spatial_scale,
        output_height_i=pooled_height,
        output_width_i=pooled_width,
        sampling_ratio_i=max(sampling_ratio, 0),
        coordinate_transformation_mode_s=mode,
    )
    return g.cast(averages, input.dtype)
