"""AlexNet (Krizhevsky et al., "One weird trick for parallelizing convolutional neural networks", 2014)."""

from __future__ import annotations

from onnx_parity.harness.case import BATCH, image, model
from onnx_parity.model_zoo.torchvision_import import torchvision

alexnet = model(torchvision.models.alexnet, image(64), dynamic=BATCH)
alexnet_full_size = model(torchvision.models.alexnet, image(224), dynamic=BATCH, tier="full")
