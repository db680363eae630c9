"""The UNets and autoencoders of diffusers. Those without a small configuration here are absent, and say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from torch import Tensor, nn

from onnx_parity.harness.case import Maker, floats
from onnx_parity.harness.zoo import Built, CannotBuildError, every, first_that_runs

_CHANNELS = {"block_out_channels": (32, 64), "norm_num_groups": 8}
_DOWN = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
_IMAGE: Mapping[str, Maker] = {"sample": floats(2, 3, 32, 32)}


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
    module, inputs = first_that_runs([(Called(model), small.inputs)])
    return Built(module, inputs, {"batch": (1, 3)})


diffusers_models = every(
    "diffusers",
    _names,
    _build,
    extra="zoo",
    few=("AutoencoderKL",),
    dynamic={"sample": {0: "batch"}},
)
