"""The UNets and autoencoders of diffusers that a small configuration can build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from torch import Tensor, nn

from onnx_parity.harness.case import Maker, floats, ints
from onnx_parity.harness.zoo import Built, CannotBuildError, every, first_that_runs

_CHANNELS = {"block_out_channels": (32, 64), "norm_num_groups": 8}
_DOWN = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
_IMAGE: Mapping[str, Maker] = {"sample": floats(2, 3, 32, 32)}
_LATENT: Mapping[str, Maker] = {"sample": floats(2, 4, 16, 16), "timestep": ints(2, low=0, high=1000)}
_TEXT: Mapping[str, Maker] = {"encoder_hidden_states": floats(2, 7, 32)}


class Small(NamedTuple):
    """A small configuration of an architecture, and what it is called with."""

    configuration: Mapping[str, Any]
    inputs: Mapping[str, Maker]


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
    "AutoencoderTiny": Small(
        {
            "encoder_block_out_channels": (32, 32),
            "decoder_block_out_channels": (32, 32),
            "num_encoder_blocks": (1, 2),
            "num_decoder_blocks": (2, 1),
        },
        _IMAGE,
    ),
    "UNet1DModel": Small(
        {
            "block_out_channels": (8, 8, 16, 16),
            "in_channels": 14,
            "out_channels": 14,
            "time_embedding_type": "positional",
            "use_timestep_embedding": True,
            "flip_sin_to_cos": False,
            "freq_shift": 1.0,
            "out_block_type": "OutConv1DBlock",
            "mid_block_type": "MidResTemporalBlock1D",
            "down_block_types": ("DownResnetBlock1D",) * 4,
            "up_block_types": ("UpResnetBlock1D",) * 3,
            "act_fn": "swish",
        },
        {"sample": floats(2, 14, 16), "timestep": ints(2, low=0, high=1000)},
    ),
    "UNet2DConditionModel": Small(
        _CHANNELS
        | {
            "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
            "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
            "cross_attention_dim": 32,
            "attention_head_dim": 8,
            "layers_per_block": 1,
        },
        {**_LATENT, **_TEXT},
    ),
    "UNet2DModel": Small(
        _CHANNELS
        | {
            "in_channels": 4,
            "out_channels": 4,
            "attention_head_dim": 8,
            "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
            "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
            "layers_per_block": 1,
        },
        _LATENT,
    ),
    "VQModel": Small(
        _DOWN | _CHANNELS | {"latent_channels": 3, "num_vq_embeddings": 64},
        _IMAGE,
    ),
}


class Called(nn.Module):
    """A model that is called with tensors, and returns one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *tensors: Tensor) -> Tensor:
        (result,) = self.model(*tensors, return_dict=False)
        assert isinstance(result, Tensor)
        return result


def _diffusers() -> Any:
    # diffusers imports torchvision, which has to be imported in a certain way beside some builds of torch.
    import_module("onnx_parity.model_zoo.torchvision_import")
    return import_module("diffusers")


@cache
def _names() -> Sequence[str]:
    """Every UNet and autoencoder, also those of video and sound, of which no small configuration is known here."""
    return [name for name in dir(_diffusers()) if _is_wanted(name)]


def _is_wanted(name: str) -> bool:
    is_part = name.endswith(("Pipeline", "Output", "Mixin")) or name.startswith("Flax")
    return ("UNet" in name or "Autoencoder" in name or name in _SMALL) and not is_part


def _build(name: str) -> Built:
    if name not in _SMALL:
        raise CannotBuildError(f"no small configuration of diffusers' {name} is known here")
    small = _SMALL[name]
    model = getattr(_diffusers(), name)(**small.configuration)
    module, inputs = first_that_runs([(Called(model), small.inputs)])
    return Built(module, inputs, {"batch": (1, 3)})


_BATCH = {0: "batch"}
diffusers_models = every(
    "diffusers",
    _names,
    _build,
    extra="zoo",
    few=("UNet2DConditionModel", "AutoencoderKL"),
    dynamic={"sample": _BATCH, "timestep": _BATCH, "encoder_hidden_states": _BATCH},
)
