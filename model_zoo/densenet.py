"""DenseNet (Huang et al., "Densely connected convolutional networks", 2016)."""

from __future__ import annotations

from onnx_parity.harness.case import BATCH, image, model
from onnx_parity.model_zoo.torchvision_import import torchvision

densenet121 = model(torchvision.models.densenet121, image(64), dynamic=BATCH)
densenet161 = model(torchvision.models.densenet161, image(64), dynamic=BATCH, tier="full")
densenet121_full_size = model(torchvision.models.densenet121, image(224), dynamic=BATCH, tier="full")
