"""VGG (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2014)."""

from __future__ import annotations

from onnx_parity.harness.case import BATCH, image, model
from onnx_parity.model_zoo.torchvision_import import torchvision

vgg16 = model(torchvision.models.vgg16, image(32), dynamic=BATCH, sizes={"batch": [1]})
vgg16_full_size = model(torchvision.models.vgg16, image(224), dynamic=BATCH, tier="full")
vgg11_bn = model(torchvision.models.vgg11_bn, image(64), dynamic=BATCH, tier="full")
vgg19_bn = model(torchvision.models.vgg19_bn, image(64), dynamic=BATCH, tier="full")
