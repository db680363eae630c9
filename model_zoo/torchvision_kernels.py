"""torchvision's operators for detection in plain torch, used where its compiled ones do not load."""

from __future__ import annotations

import math
import sys

import torch
import torch.nn.functional as F

__all__ = ["define_missing"]

_ROI_ALIGN = (
    "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, "
    "bool aligned) -> Tensor"
)
_DEFORM_CONV = (
    "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask) -> Tensor"
)


def define_missing() -> None:
    """Register kernels for torchvision's `nms`, `roi_align` and `deform_conv2d`, after torchvision was imported."""
    torch.library.impl("torchvision::nms", "CPU", _nms)
    torch.library.define("torchvision::roi_align", _ROI_ALIGN)
    # Not torchvision's own in torch, which extrapolates beyond the last pixel, where the compiled one reads 0.
    torch.library.impl("torchvision::roi_align", "CPU", _roi_align)
    torch.library.register_fake("torchvision::roi_align", _shape_of_roi_align)
    torch.library.define("torchvision::deform_conv2d", _DEFORM_CONV)
    torch.library.impl("torchvision::deform_conv2d", "CPU", _deform_conv2d)
    torch.library.register_fake("torchvision::deform_conv2d", _shape_of_deform_conv2d)
    for place in ("torchvision.extension", "torchvision.ops.roi_align"):
        vars(sys.modules[place])["_has_ops"] = _has_ops


def _has_ops() -> bool:
    """torchvision calls this before it uses its operators. TorchScript must be able to compile it."""
    return True


def _nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    order = scores.argsort(descending=True, stable=True)
    boxes = dets[order]
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    overlaps = shared / (area[:, None] + area[None, :] - shared) > iou_threshold
    keep: list[int] = []
    for place in range(len(boxes)):
        if not overlaps[place, keep].any():
            keep.append(place)
    return order[keep]


def _roi_align(
    input: torch.Tensor, rois: torch.Tensor, scale: float, height: int, width: int, ratio: int, aligned: bool
) -> torch.Tensor:
    pooled = input.new_zeros((len(rois), input.shape[1], height, width))
    for place, (image, *corners) in enumerate(rois.tolist()):
        left, top, right, bottom = (corner * scale - (0.5 if aligned else 0.0) for corner in corners)
        rows = _weights_along(input, 2, top, bottom, height, ratio, aligned)
        columns = _weights_along(input, 3, left, right, width, ratio, aligned)
        pooled[place] += rows @ input[int(image)] @ columns.T
    return pooled


def _weights_along(
    input: torch.Tensor, axis: int, start: float, end: float, cells: int, ratio: int, aligned: bool
) -> torch.Tensor:
    """How much each pixel along an axis counts in each of the cells between two ends."""
    size = input.shape[axis]
    extent = end - start if aligned else max(end - start, 1.0)
    in_cell = ratio if ratio > 0 else max(math.ceil(extent / cells), 0)
    points = start + (torch.arange(cells * in_cell, dtype=input.dtype) + 0.5) * (extent / (cells * max(in_cell, 1)))
    # Up to a pixel outside of the image, a point has the value at the border; further away it has 0.
    outside = (points < -1) | (points > size)
    points = points.clamp(0, size - 1)
    weights = (1 - (points[:, None] - torch.arange(size, dtype=input.dtype)).abs()).clamp(min=0)
    return weights.masked_fill(outside[:, None], 0).view(cells, in_cell, size).sum(1) / max(in_cell, 1)


def _shape_of_roi_align(
    input: torch.Tensor, rois: torch.Tensor, scale: float, height: int, width: int, ratio: int, aligned: bool
) -> torch.Tensor:
    return input.new_empty((rois.shape[0], input.shape[1], height, width))


def _deform_conv2d(
    input: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor, bias: torch.Tensor,
    stride_h: int, stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int,
    offset_groups: int, use_mask: bool,
) -> torch.Tensor:  # fmt: skip
    batch, channels, height, width = input.shape
    kernel_h, kernel_w = weight.shape[2:]
    rows, columns = offset.shape[-2:]
    # Offsets are (row, column) for each element of the kernel.
    y, x = offset.view(batch * offset_groups, kernel_h * kernel_w, 2, rows, columns).unbind(2)
    along_y, along_x = (torch.arange(size, dtype=input.dtype) for size in (kernel_h, kernel_w))
    y = y + (along_y * dilation_h).repeat_interleave(kernel_w).view(-1, 1, 1)
    x = x + (along_x * dilation_w).repeat(kernel_h).view(-1, 1, 1)
    y = y + (torch.arange(rows, dtype=input.dtype) * stride_h - pad_h).view(-1, 1)
    x = x + torch.arange(columns, dtype=input.dtype) * stride_w - pad_w
    grid = torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], -1).flatten(1, 2)
    by_group = input.reshape(batch * offset_groups, channels // offset_groups, height, width)
    read = F.grid_sample(by_group, grid, align_corners=False).view(
        batch, offset_groups, channels // offset_groups, kernel_h * kernel_w, rows, columns
    )
    if use_mask:
        read = read * mask.view(batch, offset_groups, 1, kernel_h * kernel_w, rows, columns)
    made = weight.reshape(groups, len(weight) // groups, -1) @ read.reshape(batch, groups, -1, rows * columns)
    return made.reshape(batch, len(weight), rows, columns) + bias.view(-1, 1, 1)


def _shape_of_deform_conv2d(
    input: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, *others: object
) -> torch.Tensor:
    return input.new_empty((input.shape[0], weight.shape[0], *offset.shape[-2:]))
