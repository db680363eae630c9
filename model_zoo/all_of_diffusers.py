"""The UNets and autoencoders of diffusers, and transformers and a ControlNet. Those without a small configuration here
are absent, and say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from onnx_parity.harness.case import Maker, floats, given, ints
from onnx_parity.harness.zoo import Built, CannotBuildError, every, first_that_runs

_CHANNELS = {"block_out_channels": (32, 64), "norm_num_groups": 8}
_DOWN = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
_IMAGE: Mapping[str, Maker] = {"sample": floats(2, 3, 32, 32)}


_IMAGE_AXES = {"sample": {0: "batch", 2: "height", 3: "width"}}
#: The sizes that are tried beside the example's. The networks halve them.
_IMAGE_SIZES = {"height": (8, 24), "width": (12,)}
_WORDS_AXES = {"encoder_hidden_states": {0: "batch", 1: "words"}}
_UNET = {
    "block_out_channels": (32, 64),
    "layers_per_block": 1,
    "sample_size": 16,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "cross_attention_dim": 32,
    "norm_num_groups": 8,
    "attention_head_dim": 8,
}
_UNET_INPUTS = {"sample": floats(2, 4, 16, 16), "timestep": given(7), "encoder_hidden_states": floats(2, 7, 32)}
_LATENT_AXES = {"hidden_states": {0: "batch", 2: "height", 3: "width"}, **_WORDS_AXES}


class Small(NamedTuple):
    """A small configuration of an architecture, and what it is called with, by the names of its parameters."""

    configuration: Mapping[str, Any]
    inputs: Mapping[str, Maker]
    axes: Mapping[str, Mapping[int, str]] = _IMAGE_AXES
    sizes: Mapping[str, tuple[int, ...]] = _IMAGE_SIZES


_SMALL = {
    "AsymmetricAutoencoderKL": Small(
        _DOWN
        | {
            "down_block_out_channels": (32, 64),
            "up_block_out_channels": (32, 64),
            "layers_per_down_block": 1,
            "layers_per_up_block": 1,
            "norm_num_groups": 8,
        },
        _IMAGE,
    ),
    "AutoencoderKL": Small(_DOWN | _CHANNELS, _IMAGE),
    "UNet2DConditionModel": Small(
        _UNET | {"up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D")},
        _UNET_INPUTS,
        _IMAGE_AXES | _WORDS_AXES,
        _IMAGE_SIZES | {"words": (1, 5)},
    ),
    "ControlNetModel": Small(
        {each: value for each, value in _UNET.items() if each != "sample_size"}
        | {"conditioning_embedding_out_channels": (16, 32)},
        _UNET_INPUTS | {"controlnet_cond": floats(2, 3, 32, 32)},
        {"sample": {0: "batch"}, "controlnet_cond": {0: "batch"}, **_WORDS_AXES},
        {"words": (1, 5)},
    ),
    "FluxTransformer2DModel": Small(
        {
            "patch_size": 1,
            "in_channels": 4,
            "num_layers": 1,
            "num_single_layers": 1,
            "attention_head_dim": 16,
            "num_attention_heads": 2,
            "joint_attention_dim": 32,
            "pooled_projection_dim": 32,
            "axes_dims_rope": (4, 4, 8),
        },
        {
            "hidden_states": floats(2, 16, 4),
            "encoder_hidden_states": floats(2, 7, 32),
            "pooled_projections": floats(2, 32),
            "timestep": floats(2),
            "img_ids": floats(16, 3),
            "txt_ids": floats(7, 3),
        },
        {
            "hidden_states": {0: "batch", 1: "pixels"},
            "encoder_hidden_states": {0: "batch", 1: "words"},
            "pooled_projections": {0: "batch"},
            "timestep": {0: "batch"},
            "img_ids": {0: "pixels"},
            "txt_ids": {0: "words"},
        },
        {"pixels": (1, 15), "words": (1, 5)},
    ),
    "SD3Transformer2DModel": Small(
        {
            "sample_size": 16,
            "patch_size": 2,
            "in_channels": 4,
            "num_layers": 2,
            "attention_head_dim": 8,
            "num_attention_heads": 4,
            "caption_projection_dim": 32,
            "joint_attention_dim": 32,
            "pooled_projection_dim": 64,
            "out_channels": 4,
            "pos_embed_max_size": 24,
        },
        {
            "hidden_states": floats(2, 4, 16, 16),
            "encoder_hidden_states": floats(2, 7, 32),
            "pooled_projections": floats(2, 64),
            "timestep": floats(2),
        },
        _LATENT_AXES | {"pooled_projections": {0: "batch"}, "timestep": {0: "batch"}},
        _IMAGE_SIZES | {"words": (1, 5)},
    ),
    "PixArtTransformer2DModel": Small(
        {
            "sample_size": 8,
            "num_layers": 2,
            "attention_head_dim": 8,
            "num_attention_heads": 3,
            "caption_channels": 32,
            "in_channels": 4,
            "cross_attention_dim": 24,
            "use_additional_conditions": False,
        },
        {
            "hidden_states": floats(2, 4, 8, 8),
            "encoder_hidden_states": floats(2, 7, 32),
            "timestep": ints(2, high=8),
        },
        _LATENT_AXES | {"timestep": {0: "batch"}},
        {"height": (6,), "width": (12,), "words": (1, 5)},
    ),
}


class Called(nn.Module):
    """A model that is called with tensors by their names, and returns all tensors of its result."""

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *tensors: Tensor) -> list[Tensor]:
        result = self.model(**dict(zip(self.names, tensors, strict=True)), return_dict=False)
        return [each for each in pytree.tree_leaves(result) if isinstance(each, Tensor)]


def _diffusers() -> Any:
    # diffusers imports torchvision, which has to be imported in a certain way beside some builds of torch.
    import_module("onnx_parity.model_zoo.torchvision_import")
    return import_module("diffusers")


@cache
def _names() -> Sequence[str]:
    """Every UNet and autoencoder, also those of which no small configuration is known here."""
    return [name for name in dir(_diffusers()) if _is_wanted(name)]


def _is_wanted(name: str) -> bool:
    is_part = name.endswith(("Pipeline", "Output", "Mixin")) or name.startswith("Flax")
    return ("UNet" in name or "Autoencoder" in name or name in _SMALL) and not is_part


def _build(name: str) -> Built:
    if name not in _SMALL:
        raise CannotBuildError(f"no small configuration of diffusers' {name} is known here")
    small = _SMALL[name]
    model = getattr(_diffusers(), name)(**small.configuration)
    with torch.no_grad():
        for weight in model.parameters():
            # What a ControlNet adds begins as zeros.
            if weight.numel() > 1 and bool((weight == 0).all()):
                weight.normal_(std=0.1)
    module, inputs = first_that_runs([(Called(model, tuple(small.inputs)), small.inputs)])
    return Built(module, inputs, {"batch": (1, 3), **small.sizes}, dynamic=small.axes)


diffusers_models = every(
    "diffusers",
    _names,
    _build,
    extra="zoo",
    few=("AutoencoderKL",),
    dynamic=_IMAGE_AXES,
)
