"""Semantic segmentation: fully convolutional networks, and DeepLab with dilated ones. They return dicts."""

from __future__ import annotations

from onnx_parity.harness.case import Keywords, image, model
from onnx_parity.model_zoo.torchvision_import import torchvision

_ANY_IMAGE: Keywords = {
    "weights": None,
    "weights_backbone": None,
    "dynamic": {"x": {0: "batch", 2: "height", 3: "width"}},
    "sizes": {"height": [64, 96], "width": [96, 64]},
}
_segmentation = torchvision.models.segmentation

lraspp = model(_segmentation.lraspp_mobilenet_v3_large, image(64), **_ANY_IMAGE)
fcn_resnet50 = model(_segmentation.fcn_resnet50, image(64), **_ANY_IMAGE, tier="full")
deeplabv3_mobilenet_v3_large = model(_segmentation.deeplabv3_mobilenet_v3_large, image(64), **_ANY_IMAGE, tier="full")
