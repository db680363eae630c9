"""Small networks for phones: depthwise convolutions, channel shuffles, squeeze and excitation, activations in place."""

from __future__ import annotations

from onnx_parity.harness.case import BATCH, image, model
from onnx_parity.model_zoo.torchvision_import import torchvision

mobilenet_v2 = model(torchvision.models.mobilenet_v2, image(64), width_mult=0.5, dynamic=BATCH)
mobilenet_v3_small = model(torchvision.models.mobilenet_v3_small, image(64), dynamic=BATCH)
shufflenet_v2 = model(torchvision.models.shufflenet_v2_x0_5, image(64), dynamic=BATCH)
squeezenet1_1 = model(torchvision.models.squeezenet1_1, image(64), dynamic=BATCH, tier="full")
mnasnet0_5 = model(torchvision.models.mnasnet0_5, image(64), dynamic=BATCH, tier="full")
efficientnet_b0 = model(torchvision.models.efficientnet_b0, image(64), dynamic=BATCH, tier="full")
googlenet = model(torchvision.models.googlenet, image(64), init_weights=False, dynamic=BATCH, tier="full")
