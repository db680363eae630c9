"""Inception v3 (Szegedy et al., "Rethinking the inception architecture for computer vision", 2015)."""

from __future__ import annotations

from onnx_parity.harness.case import BATCH, image, model
from onnx_parity.model_zoo.torchvision_import import torchvision

# The last layers have an empty input for images of fewer than 75 pixels.
inception_v3 = model(
    torchvision.models.inception_v3, image(75), init_weights=False, dynamic=BATCH, sizes={"batch": [1]}
)
inception_v3_full_size = model(
    torchvision.models.inception_v3, image(299), init_weights=False, dynamic=BATCH, tier="full"
)
