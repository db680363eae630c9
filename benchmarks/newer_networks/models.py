"""Networks of the years after ResNet, for the benchmarks of this folder and of latency.

Those of transformers are small, because an export takes the same steps for a small network as for a large one. They are
not measured if transformers is not installed, nor those of timm without timm.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from torch import Tensor, nn

from benchmarks.models import MODELS, Example, Model, ModelGroup, vision

__all__ = ["FURTHER", "NEWER", "model_named"]

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
    made = vision(name, ModelGroup.NETWORK, _SMALL_IMAGE, weights_backbone=None)
    return Model(name, lambda: _Mask(made.build()), made.shape, made.kind)


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)


def _of_transformers(name: str) -> Model:
    def build() -> nn.Module:
        return _FirstOutput(_made(name, {**_SIZES, **_CONFIGURATIONS[name]}))

    return Model(name, build, shape=(9,), kind=ModelGroup.NETWORK, tokens=_TOKENS)


NEWER = {
    model.name: model
    for model in (
        *(vision(name, ModelGroup.NETWORK, _IMAGE) for name in _CLASSIFIERS),
        *(_segmentation(name) for name in ("deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large")),
        *(vision(name, ModelGroup.NETWORK, _VIDEO) for name in ("r3d_18", "mc3_18", "r2plus1d_18")),
        Model("transformer_encoder", _encoder, shape=(9, 64), kind=ModelGroup.NETWORK),
        Model("gru", lambda: _FirstOutput(nn.GRU(64, 64, 2, batch_first=True)), shape=(9, 64), kind=ModelGroup.NETWORK),
        *(_of_transformers(name) for name in _CONFIGURATIONS if find_spec("transformers") is not None),
    )
}


#: Those whose names end in a width are large enough for their latency to say something: 4 layers of this width.
_WIDTH = 256
_WIDER = {**_SIZES, "hidden_size": _WIDTH, "intermediate_size": 4 * _WIDTH}
_ENCODER_AND_DECODER = {
    "d_model": _WIDTH,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 4 * _WIDTH,
    "decoder_ffn_dim": 4 * _WIDTH,
    "use_cache": False,
}
_T5 = {"d_model": _WIDTH, "d_kv": 64, "d_ff": 4 * _WIDTH, "num_layers": 4, "num_heads": 4, "use_cache": False}
#: Its default tokens are beyond this vocabulary.
_WHISPER_TOKENS = {"decoder_start_token_id": 1, "bos_token_id": 1, "eos_token_id": 2}
_WHISPER = {**_ENCODER_AND_DECODER, **_WHISPER_TOKENS, "max_source_positions": 200}
_LENGTH, _PAST, _HEADS = 64, 63, 4


class _EncoderAndDecoder(nn.Module):
    def __init__(self, network: nn.Module, first: str) -> None:
        super().__init__()
        self.network = network
        self.first = first

    def forward(self, x: Tensor, decoded: Tensor) -> Tensor:
        found: Tensor = self.network(**{self.first: x}, decoder_input_ids=decoded)[0]
        return found


class _WithCache(nn.Module):
    """A language model that is given a token, and the keys and values of those before it, and returns them grown."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, *past: Tensor) -> list[Tensor]:
        cache = import_module("transformers").DynamicCache()
        for layer, (keys, values) in enumerate(zip(past[::2], past[1::2], strict=True)):
            cache.update(keys, values, layer)
        logits, grown = self.network(x, past_key_values=cache, use_cache=True, return_dict=False)[:2]
        return [logits, *(tensor for layer in grown.layers for tensor in (layer.keys, layer.values))]


def _wide(name: str, *, shape: tuple[int, ...] = (_LENGTH,), tokens: int = _TOKENS, **sizes: Any) -> Model:
    def build() -> nn.Module:
        return _FirstOutput(_made(name, {**_WIDER, **sizes}))

    return Model(f"{name}_{_WIDTH}", build, shape, tokens=tokens)


def _encoder_and_decoder(name: str, first: Example, sizes: dict[str, Any], given: str = "input_ids") -> Model:
    def build() -> nn.Module:
        return _EncoderAndDecoder(_made(name, {"vocab_size": _TOKENS, "pad_token_id": 0, **sizes}), given)

    return Model(f"{name}_{_WIDTH}", build, first.shape, tokens=first.tokens, further=(Example((_LENGTH,), _TOKENS),))


def _made(name: str, sizes: dict[str, Any]) -> nn.Module:
    # transformers imports torchvision, which only some builds of torch can import without help.
    import_module("onnx_parity.model_zoo.torchvision_import")
    transformers = import_module("transformers")
    made: nn.Module = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(name, **sizes))
    return made


def _cached_llama() -> Model:
    past = (Example((_HEADS, _PAST, _WIDTH // _HEADS)),) * (2 * _WIDER["num_hidden_layers"])

    def build() -> nn.Module:
        return _WithCache(_made("llama", {**_WIDER, "use_cache": True}))

    return Model(f"llama_cached_{_WIDTH}", build, (1,), tokens=_TOKENS, further=past)


def _of_timm(name: str, shape: tuple[int, ...] = _IMAGE) -> Model:
    def build() -> nn.Module:
        import_module("onnx_parity.model_zoo.torchvision_import")
        made: nn.Module = import_module("timm").create_model(name)
        return made

    return Model(name, build, shape)


_TEXT = Example((_LENGTH,), _TOKENS)

#: Networks whose graphs and latency are measured, and not the times of their exports.
FURTHER = {
    model.name: model
    for package, models in {
        "timm": (_of_timm("dm_nfnet_f0", (3, 192, 192)), _of_timm("mvitv2_tiny")),
        "transformers": (
            _wide("bert"),
            _wide("gpt2", n_embd=_WIDTH, n_layer=4, n_head=4),
            _cached_llama(),
            _encoder_and_decoder("t5", _TEXT, _T5),
            _encoder_and_decoder("bart", _TEXT, _ENCODER_AND_DECODER),
            _encoder_and_decoder("whisper", Example((80, 400)), _WHISPER, "input_features"),
            _wide("wav2vec2", shape=(16000,), tokens=0),
        ),
    }.items()
    if find_spec(package) is not None
    for model in models
}


def model_named(name: str) -> Model:
    return next(models[name] for models in (MODELS, NEWER, FURTHER) if name in models)
