"""torchvision's operators for detection in plain torch, used where its compiled ones do not load."""

from __future__ import annotations

import sys

import torch

__all__ = ["define_missing"]

_ROI_ALIGN = (
    "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, "
    "bool aligned) -> Tensor"
)


def define_missing() -> None:
    """Register kernels for `torchvision::nms` and `torchvision::roi_align`, after torchvision was imported."""
    torch.library.impl("torchvision::nms", "CPU", _nms)
    torch.library.define("torchvision::roi_align", _ROI_ALIGN)
    module = sys.modules["torchvision.ops.roi_align"]
    # torchvision has this one in torch too, and compiles it where it has no operator.
    torch.library.impl("torchvision::roi_align", "CPU", vars(module)["_roi_align"].__wrapped__)
    torch.library.register_fake("torchvision::roi_align", _shape_of_roi_align)
    for place in (sys.modules["torchvision.extension"], module):
        vars(place)["_has_ops"] = _has_ops


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


def _shape_of_roi_align(
    input: torch.Tensor, rois: torch.Tensor, scale: float, height: int, width: int, ratio: int, aligned: bool
) -> torch.Tensor:
    return input.new_empty((rois.shape[0], input.shape[1], height, width))
