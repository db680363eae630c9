"""SuperResolution (Shi et al., "Real-time single image and video super-resolution using an efficient sub-pixel
convolutional neural network", 2016): ESPCN, of the size that PyTorch's tutorial exports."""

from __future__ import annotations

import torch
from torch import nn

from onnx_parity.harness.case import BATCH, floats, model


class SuperResolution(nn.Module):
    """Four convolutions over the luminance, whose last channels are rearranged into pixels."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 64, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, factor**2, 3, padding=1),
            nn.PixelShuffle(factor),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y


super_resolution = model(
    SuperResolution,
    floats(1, 1, 32, 32),
    factor=[2, 3],
    dynamic={"x": {0: "batch", 2: "height", 3: "width"}},
    sizes={"batch": [2, 3], "height": [24, 40], "width": [36, 20]},
)
super_resolution_full_size = model(SuperResolution, floats(1, 1, 224, 224), factor=3, dynamic=BATCH, tier="full")
