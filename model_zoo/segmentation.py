"""A class for every pixel: fully convolutional networks, and DeepLab's dilated ones; dicts of outputs."""

from __future__ import annotations

from onnx_parity.harness.case import image, model
from onnx_parity.model_zoo.torchvision_import import torchvision

_ANY_IMAGE = {"x": {0: "batch", 2: "height", 3: "width"}}
_SIZES = {"height": [64, 96], "width": [96, 64]}

lraspp = model(
    torchvision.models.segmentation.lraspp_mobilenet_v3_large,
    image(64),
    weights=None,
    weights_backbone=None,
    dynamic=_ANY_IMAGE,
    sizes=_SIZES,
)
fcn_resnet50 = model(
    torchvision.models.segmentation.fcn_resnet50,
    image(64),
    weights=None,
    weights_backbone=None,
    dynamic=_ANY_IMAGE,
    sizes=_SIZES,
    tier="full",
)
deeplabv3_mobilenet_v3_large = model(
    torchvision.models.segmentation.deeplabv3_mobilenet_v3_large,
    image(64),
    weights=None,
    weights_backbone=None,
    dynamic=_ANY_IMAGE,
    sizes=_SIZES,
    tier="full",
)
