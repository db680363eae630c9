"""Vision transformers: ViT, Swin with shifted windows, MaxViT with grids; and ConvNeXt, their convolutional rival."""

from __future__ import annotations

from torch import nn

from onnx_parity.harness.case import BATCH, image, model
from onnx_parity.model_zoo.torchvision_import import torchvision


def small_swin() -> nn.Module:
    """Two stages of two blocks, the second of which has shifted windows."""
    swin: nn.Module = torchvision.models.SwinTransformer(
        [4, 4], 24, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4]
    )
    return swin


vit = model(
    torchvision.models.VisionTransformer,
    image(64),
    image_size=64,
    patch_size=16,
    num_layers=2,
    num_heads=2,
    hidden_dim=32,
    mlp_dim=64,
    dynamic=BATCH,
)
swin = model(small_swin, image(64), dynamic=BATCH)
convnext_tiny = model(torchvision.models.convnext_tiny, image(64), dynamic=BATCH)
vit_b_32 = model(torchvision.models.vit_b_32, image(224), dynamic=BATCH, tier="full")
swin_t = model(torchvision.models.swin_t, image(224), dynamic=BATCH, tier="full")
maxvit_t = model(torchvision.models.maxvit_t, image(224, batch=1), tier="full")
