"""AlexNet (Krizhevsky et al., "One weird trick for parallelizing convolutional neural networks", 2014)."""

from __future__ import annotations

from onnx_parity.harness.case import image, model
from onnx_parity.model_zoo.torchvision_import import torchvision

alexnet = model(torchvision.models.alexnet, image(64), dynamic={"x": {0: "batch"}})
alexnet_full_size = model(torchvision.models.alexnet, image(224), dynamic={"x": {0: "batch"}}, tier="full")
