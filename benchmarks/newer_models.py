"""Networks of the years after ResNet, for `python -m benchmarks.newer_networks`: attention, windows, gates, tokens.

Those of transformers are small, because an export takes the same steps for a small network as for a large one. They are
not measured if transformers is not installed.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from torch import Tensor, nn

from benchmarks.models import MODELS, Kind, Model, vision

__all__ = ["NEWER", "model_named"]

_IMAGE, _SMALL_IMAGE, _VIDEO = (3, 224, 224), (3, 128, 128), (3, 16, 112, 112)
_TOKENS = 500

_CLASSIFIERS = (
    "convnext_tiny",
    "efficientnet_b0",
    "efficientnet_v2_s",
    "maxvit_t",
    "mnasnet0_5",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "regnet_y_400mf",
    "resnext50_32x4d",
    "shufflenet_v2_x0_5",
    "squeezenet1_0",
    "swin_t",
    "swin_v2_t",
    "vit_b_16",
    "vit_b_32",
    "wide_resnet50_2",
)
#: The architectures of transformers, with their own names for sizes.
_CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "albert": {},
    "bert": {},
    "bloom": {"n_layer": 4, "n_head": 4},
    "deberta-v2": {},
    "distilbert": {"dim": 64, "hidden_dim": 128, "n_heads": 4, "n_layers": 4},
    "electra": {},
    "falcon": {},
    "gpt2": {"n_embd": 64, "n_layer": 4, "n_head": 4},
    "gpt_neox": {},
    "llama": {"num_key_value_heads": 2},
    "mistral": {"num_key_value_heads": 2},
    "mpnet": {},
    "opt": {"word_embed_proj_dim": 64, "ffn_dim": 128},
    "phi": {},
    "qwen2": {"num_key_value_heads": 2},
    "roberta": {},
}
_SIZES = {
    "vocab_size": _TOKENS,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "pad_token_id": 0,
    "use_cache": False,
}


class _FirstOutput(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        first: Tensor = self.network(x)[0]
        return first


class _Mask(nn.Module):
    """A segmentation network, which returns a dict."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        mask: Tensor = self.network(x)["out"]
        return mask


def _segmentation(name: str) -> Model:
    made = vision(name, Kind.NEWER, _SMALL_IMAGE, weights_backbone=None)
    return Model(name, lambda: _Mask(made.build()), made.shape, made.kind)


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)


def _of_transformers(name: str) -> Model:
    def build() -> nn.Module:
        # transformers imports torchvision, which only some builds of torch can import without help.
        import_module("onnx_parity.model_zoo.torchvision_import")
        transformers = import_module("transformers")
        configuration = transformers.AutoConfig.for_model(name, **_SIZES, **_CONFIGURATIONS[name])
        return _FirstOutput(transformers.AutoModel.from_config(configuration))

    return Model(name, build, shape=(9,), kind=Kind.NEWER, tokens=_TOKENS)


NEWER = {
    model.name: model
    for model in (
        *(vision(name, Kind.NEWER, _IMAGE) for name in _CLASSIFIERS),
        *(_segmentation(name) for name in ("deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large")),
        *(vision(name, Kind.NEWER, _VIDEO) for name in ("r3d_18", "mc3_18", "r2plus1d_18")),
        Model("transformer_encoder", _encoder, shape=(9, 64), kind=Kind.NEWER),
        Model("gru", lambda: _FirstOutput(nn.GRU(64, 64, 2, batch_first=True)), shape=(9, 64), kind=Kind.NEWER),
        *(_of_transformers(name) for name in _CONFIGURATIONS if find_spec("transformers") is not None),
    )
}


def model_named(name: str) -> Model:
    return MODELS[name] if name in MODELS else NEWER[name]
