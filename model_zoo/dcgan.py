"""DCGAN (Radford et al., "Unsupervised representation learning with deep convolutional generative adversarial
networks", 2015): the generator and the discriminator for images of 64 pixels."""

from __future__ import annotations

import torch
from torch import nn

from onnx_parity.harness.case import BATCH, floats, image, model


def generator(latent: int = 100, features: int = 64, channels: int = 3) -> nn.Module:
    """Five transposed convolutions, which make an image from a latent vector of one pixel."""
    widths = [features * 8, features * 4, features * 2, features]
    layers: list[nn.Module] = []
    before = latent
    for number, width in enumerate(widths):
        stride, padding = (2, 1) if number else (1, 0)
        layers += [
            nn.ConvTranspose2d(before, width, 4, stride, padding, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(True),
        ]
        before = width
    return nn.Sequential(*layers, nn.ConvTranspose2d(before, channels, 4, 2, 1, bias=False), nn.Tanh())


class Discriminator(nn.Module):
    """Five convolutions, each twice as wide as the one before: one probability for each image."""

    def __init__(self, features: int = 64, channels: int = 3) -> None:
        super().__init__()
        widths = [features, features * 2, features * 4, features * 8]
        layers: list[nn.Module] = []
        before = channels
        for number, width in enumerate(widths):
            layers.append(nn.Conv2d(before, width, 4, 2, 1, bias=False))
            if number:
                layers.append(nn.BatchNorm2d(width))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            before = width
        self.layers = nn.Sequential(*layers, nn.Conv2d(before, 1, 4, 1, 0, bias=False), nn.Sigmoid())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y.view(-1, 1).squeeze(1)


dcgan_generator = model(generator, floats(2, 100, 1, 1), dynamic=BATCH)
dcgan_discriminator = model(Discriminator, image(64), dynamic=BATCH)
