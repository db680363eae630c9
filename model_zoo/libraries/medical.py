"""Volumes and images of medicine, of monai."""

from __future__ import annotations

from typing import Any

from onnx_parity.harness.case import floats
from onnx_parity.harness.zoo import Built
from onnx_parity.model_zoo.libraries.declaring import IMAGES, library, made

_SLICES: Any = {
    "inputs": {"x": floats(2, 1, 64, 96)},
    "sizes": {"batch": (1, 3), "height": (32, 128), "width": (64, 160)},
    "dynamic": IMAGES,
}
_SLICES_ALIKE: Any = {"inputs": {"x": floats(2, 1, 64, 96)}, "sizes": {"batch": (1, 3)}}
_VOLUME: Any = {"inputs": {"x": floats(2, 1, 32, 32, 32)}, "sizes": {"batch": (1, 3)}}
_FLAT: Any = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2}


def _network(name: str, of: Any = _SLICES, **keywords: Any) -> Built:
    return Built(made(f"monai.networks.nets:{name}", **keywords), **of)


_LEVELS: Any = {"channels": (8, 16, 32), "strides": (2, 2)}

monai = library(
    "monai",
    {
        "unet": lambda: _network("UNet", **_FLAT, **_LEVELS, num_res_units=1),
        "attention_unet": lambda: _network("AttentionUnet", **_FLAT, **_LEVELS),
        "basic_unet": lambda: _network("BasicUNet", **_FLAT, features=(8, 8, 16, 16, 32, 8)),
        "dyn_unet": lambda: _network(
            "DynUNet",
            **_FLAT,
            kernel_size=[3, 3, 3],
            strides=[1, 2, 2],
            upsample_kernel_size=[2, 2],
            filters=[8, 16, 32],
        ),
        "seg_res_net": lambda: _network("SegResNet", **_FLAT, init_filters=8),
        "vnet": lambda: _network("VNet", spatial_dims=2, in_channels=1, out_channels=2),
        "high_res": lambda: _network("HighResNet", **_FLAT),
        "densenet": lambda: _network("DenseNet", **_FLAT, block_config=(2, 2), init_features=8, growth_rate=4),
        "flexible": lambda: _network(
            "FlexibleUNet", in_channels=1, out_channels=2, backbone="efficientnet-b0", pretrained=False
        ),
        "autoencoder": lambda: _network("AutoEncoder", **_FLAT, channels=(8, 16, 32), strides=(2, 2, 2)),
        "swin_unetr": lambda: _network(
            "SwinUNETR", _SLICES_ALIKE, in_channels=1, out_channels=2, feature_size=12, spatial_dims=2
        ),
        "unetr": lambda: _network(
            "UNETR",
            _VOLUME,
            in_channels=1,
            out_channels=2,
            img_size=(32, 32, 32),
            feature_size=4,
            hidden_size=24,
            mlp_dim=32,
            num_heads=2,
        ),
        "vit": lambda: _network(
            "ViT",
            _VOLUME,
            in_channels=1,
            img_size=(32, 32, 32),
            patch_size=(16, 16, 16),
            hidden_size=24,
            mlp_dim=32,
            num_layers=1,
            num_heads=2,
            classification=True,
        ),
    },
)
