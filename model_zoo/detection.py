"""Detection: non-maximum suppression, RoI align, deformable convolution, and torchvision's detectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.harness.case import distinct, floats, given, ints, model, op
from onnx_parity.model_zoo.torchvision_import import torchvision

BOXES = {"x0": {0: "boxes"}, "x1": {0: "boxes"}}


def corners(x: torch.Tensor) -> torch.Tensor:
    """Boxes given by two corners, from corners and sizes between 0 and 1."""
    return torch.cat([x[:, :2], x[:, :2] + x[:, 2:]], 1) * 20


def scores_of(x: torch.Tensor) -> torch.Tensor:
    return x / (x.abs().max() + 1)


nms = op(
    lambda x, scores, threshold: torchvision.ops.nms(corners(x), scores_of(scores), threshold),
    floats(8, 4, low=0, high=1),
    distinct(8),
    threshold=[0.1, 0.5],
    dynamic=BOXES,
)
batched_nms = op(
    lambda x, scores, classes: torchvision.ops.batched_nms(corners(x), scores_of(scores), classes, 0.3),
    floats(8, 4, low=0, high=1),
    distinct(8),
    ints(8, high=3),
    dynamic={**BOXES, "x2": {0: "boxes"}},
)


def detections(x: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What `RoIHeads.postprocess_detections` does with the boxes of one image."""
    boxes = torchvision.ops.clip_boxes_to_image(corners(x), (30, 35))
    found = torch.where(scores_of(scores) > -0.8)[0]
    boxes, scores, classes = boxes[found], scores_of(scores)[found], classes[found]
    large = torchvision.ops.remove_small_boxes(boxes, 1e-2)
    boxes, scores, classes = boxes[large], scores[large], classes[large]
    keep = torchvision.ops.batched_nms(boxes, scores, classes, 0.3)[:5]
    return boxes[keep], scores[keep], classes[keep]


post_processing = op(
    detections,
    floats(8, 4, low=0, high=1),
    distinct(8),
    ints(8, high=3),
    dynamic={**BOXES, "x2": {0: "boxes"}},
)


#: Why regions are not read beside a NaN.
_NAN_WITHOUT_WEIGHT = "torch multiplies an element of no weight by 0, and runtimes leave it out"


def regions(x: torch.Tensor, boxes: torch.Tensor, offset: float = 0.0, **how: Any) -> torch.Tensor:
    """RoI align of three boxes in two images, to a grid of 3 by 2."""
    rois = torch.cat([boxes.new_tensor([[0.0], [1.0], [0.0]]), corners(boxes) + offset], 1)
    found: torch.Tensor = torchvision.ops.roi_align(x, rois, (3, 2), **how)
    return found


roi_align = op(
    regions,
    floats(2, 3, 10, 12),
    floats(3, 4, low=0.05, high=0.45),
    rows=[
        {"spatial_scale": 0.25},
        {"spatial_scale": 0.5, "sampling_ratio": 2},
        {"spatial_scale": 0.5, "sampling_ratio": 2, "aligned": True},
        # Boxes that begin or end outside of the image.
        {"offset": -6.0, "spatial_scale": 0.5, "sampling_ratio": 2},
        {"offset": 8.0, "spatial_scale": 0.7, "sampling_ratio": 3, "aligned": True},
        {"offset": 8.0, "spatial_scale": 1.0},
    ],
    dynamic={"x0": {2: "height", 3: "width"}},
    sizes={"height": (11, 13), "width": (10, 14)},
    without_nan=_NAN_WITHOUT_WEIGHT,
)
roi_align_of_doubles = op(
    regions,
    floats(2, 3, 10, 12),
    floats(3, 4, low=0.05, high=0.45),
    spatial_scale=0.7,
    rows=[{}, {"sampling_ratio": 2, "aligned": True}],
    dtypes=[torch.float64],
    without_nan=_NAN_WITHOUT_WEIGHT,
)
deform_conv2d = op(
    torchvision.ops.deform_conv2d,
    floats(2, 4, 6, 7),
    offset=floats(2, 18, 4, 5),
    weight=floats(3, 4, 3, 3),
    dynamic={"x": {0: "batch"}, "offset": {0: "batch"}},
)
deform_conv2d_with_mask = op(
    torchvision.ops.deform_conv2d,
    floats(2, 4, 6, 7),
    offset=floats(2, 24, 3, 7),
    weight=floats(6, 2, 3, 2),
    bias=floats(6),
    mask=floats(2, 12, 3, 7),
    stride=(2, 1),
    padding=(1, 1),
    dilation=(1, 2),
    dynamic={"x": {0: "batch"}, "offset": {0: "batch"}, "mask": {0: "batch"}},
)
iou = op(
    lambda x, y: torchvision.ops.box_iou(corners(x), corners(y)),
    floats(4, 4, low=0, high=1),
    floats(3, 4, low=0, high=1),
    dynamic={"x0": {0: "rows"}, "x1": {0: "columns"}},
)
same_boxes = op(
    lambda x, scores: torchvision.ops.nms(x, scores, 0.5),
    given([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 2.0], [5.0, 5.0, 6.0, 6.0]]),
    given([0.5, 0.6, 0.1]),
)


class Detector(torch.nn.Module):
    """A detector of torchvision, which takes its images as a list, for one image."""

    def __init__(self, build: Callable[..., torch.nn.Module], **settings: object) -> None:
        super().__init__()
        self.detector = build(weights=None, weights_backbone=None, **settings)
        # With untrained weights the features grow with every block, until all boxes lie outside the image.
        backbone = self.detector.get_submodule("backbone")
        backbone.register_forward_hook(lambda module, args, levels: {name: _of_size_1(x) for name, x in levels.items()})

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        (found,) = self.detector([image])
        return dict(found)


def _of_size_1(x: torch.Tensor) -> torch.Tensor:
    # In two steps, because onnxruntime adds up a million numbers one after the other.
    return x / x.square().mean((2, 3)).mean().sqrt()


_detection = torchvision.models.detection
_SIZES: dict[str, Any] = {"min_size": 64, "max_size": 96}
_REGIONS: dict[str, Any] = {
    **_SIZES,
    "rpn_post_nms_top_n_test": 20,
    "box_score_thresh": 0.012,
    "box_detections_per_img": 3,
}
_SCORED: dict[str, Any] = {"score_thresh": 0.05, "detections_per_img": 10, "topk_candidates": 20}

faster_rcnn = model(Detector, floats(3, 70, 80), build=_detection.fasterrcnn_resnet50_fpn, **_REGIONS)
# Faster R-CNN with one more head, which would take half a minute of the default tier.
mask_rcnn = model(Detector, floats(3, 70, 80), build=_detection.maskrcnn_resnet50_fpn, **_REGIONS, tier="full")
retinanet = model(Detector, floats(3, 70, 80), build=_detection.retinanet_resnet50_fpn, **_SIZES, **_SCORED)
fcos = model(Detector, floats(3, 70, 80), build=_detection.fcos_resnet50_fpn, **_SIZES, **_SCORED)
ssd = model(
    Detector,
    floats(3, 70, 80),
    build=_detection.ssd300_vgg16,
    **_SCORED,
    dynamic={"x": {1: "height", 2: "width"}},
    sizes={"height": (73,), "width": (83,)},
    tier="full",
)
