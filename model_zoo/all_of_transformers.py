"""Every architecture of transformers, and every class of a model, that a small configuration can build, which is made
up from the default one. `python -m benchmarks.classes_of_transformers` counts which classes export right."""

from __future__ import annotations

import inspect
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from onnx_parity.harness.case import Maker, floats, given, ints
from onnx_parity.harness.zoo import Built, CannotBuildError, every, first_that_runs

_TOKENS = 99
#: The small size of each part of a configuration, by the names that the architectures have for it.
_SIZES: dict[int, Sequence[str]] = {
    2: (
        "num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "depth",
        "num_decoder_layers", "num_encoder_layers", "num_key_value_heads", "num_experts_per_tok", "num_global_layers",
        "text_layers", "num_blocks", "first_k_dense_replace", "moe_k", "n_group", "topk_group", "decoder_num_layers",
    ),
    4: (
        "num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads",
        "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "decoder_num_attention_heads",
    ),
    8: ("head_dim", "d_kv", "patch_size", "attention_head_size", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
    16: (
        "moe_intermediate_size", "shared_expert_intermediate_size", "max_source_positions", "kv_lora_rank",
        "q_lora_rank", "state_size", "mamba_d_state", "sliding_window", "num_mel_bins",
    ),
    32: (
        "hidden_size", "d_model", "n_embd", "dim", "embed_dim", "embedding_size", "word_embed_proj_dim", "image_size",
        "projection_dim", "hidden_dim", "decoder_hidden_size", "emb_dim", "rotary_dim",
        "fpn_hidden_size", "reassemble_hidden_size",
    ),
    48: (
        "intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "d_inner", "ffn_hidden_size",
        "decoder_intermediate_size", "mlp_dim",
    ),
    64: ("max_position_embeddings", "n_positions", "max_target_positions", "n_ctx", "max_seq_len", "context_length"),
    _TOKENS: ("vocab_size", "vocab_size_per_layer_input"),
}  # fmt: skip
#: Axes that an architecture fixes, because it loops in Python over the tokens, over chunks of them, or over the images.
_FIXED: dict[tuple[str, ...], Sequence[str]] = {
    ("sequence",): ("canine", "cpmant", "minimax"),
    ("batch",): ("layoutlmv3", "pixtral", "reformer"),
}  # fmt: skip
_FIXED_OF = {name: axes for axes, names in _FIXED.items() for name in names}
#: Sizes that some architectures need to be others.
_OWN_SIZES: dict[str, dict[str, Any]] = {
    # With those of their default configuration, a run of PyTorch takes seconds.
    "glm5_next_text": {"linear_num_heads": 4, "linear_head_dim": 8},
    "glm5_next": {
        "linear_num_heads": 4, "linear_head_dim": 8, "num_key_value_heads": 4, "out_hidden_size": 32,
        "projection_intermediate_size": 48,
    },
    # The width of the first of their stages, which list theirs, has to be theirs too.
    "sam2_hiera_det_model": {"hidden_size": 96, "image_size": [128, 128]},
    "sam2_vision_model": {
        "hidden_size": 96, "image_size": [128, 128], "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]],
    },
    "sam2_prompt_encoder": {"image_size": 128, "patch_size": 16},
    "hiera": {"decoder_hidden_size": 32, "decoder_depth": 2, "decoder_num_heads": 4},
    # Their width is divided by three heads, and the last of their stages has one window of seven pixels.
    **{
        name: {"embed_dim": 48, "hidden_size": None, "image_size": 224, "num_layers": None}
        for name in ("swin", "swinv2", "donut-swin", "maskformer-swin")
    },
    # They choose as many places of the image.
    **{name: {"num_queries": 8} for name in ("grounding-dino", "mm-grounding-dino")},
    # They turn 32 pairs of a head's elements by time, height and width.
    **{name: {"hidden_size": 256} for name in ("glm4v_text", "glm_image_text", "glm_ocr_text")},
    "glm4v_moe_text": {"hidden_size": 512},
    # Their heads have to be as wide together as what they expand to.
    "mamba2": {"num_heads": 8},
    "granitemoehybrid": {"mamba_n_heads": 8, "layer_types": ["mamba", "attention"]},
    "zamba2": {"num_hidden_layers": None},
    # Its batch norms would have the statistics of a single pixel.
    "mobilevit": {"image_size": 64},
    # With the filters of its default configuration, it has 700 million weights.
    "vibevoice_asr": {"num_filters": 4},
    # They compute as many keys as queries, whatever is configured.
    "nemotron3_5_transcribe_asr_audio": {"num_key_value_heads": 4},
    "nemotron3_diarization_audio": {"num_key_value_heads": 4},
    "esmc": {"num_key_value_heads": 4},
    # Widths that have to be those of other parts.
    "efficientnet": {"hidden_dim": None},
    "sam_vision_model": {"output_channels": 32, "num_pos_feats": 16},
    "sam_hq_vision_model": {"output_channels": 32, "num_pos_feats": 16},
    "sam_hq_mask_decoder": {"vit_dim": 32},
    "seggpt": {"image_size": [64, 32]},
    "granite_docling_vision": {"out_hidden_size": 32},
    "xmod": {"default_language": "en_XX"},
}  # fmt: skip
_SIZE_OF = {name: size for size, names in _SIZES.items() for name in names}
#: Other sizes, tried in this order where the small ones do not fit together. None leaves the default.
_VARIANTS: Sequence[Mapping[str, int | None]] = (
    {},
    {"num_key_value_heads": 4, "rotary_dim": 8},
    {"head_dim": None, "num_key_value_heads": 4, "hidden_size": 512},
    dict.fromkeys(("num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers", "n_layer"), 24),
    # The widths of the default configuration, where few weights depend on them.
    {name: None for size, names in _SIZES.items() if 2 < size < _TOKENS for name in names},
)
#: Sizes that some architectures have no default for, and do not work without.
_MISSING = {
    "head_dim": 8, "num_key_value_heads": 4, "num_experts_per_tok": 2,
    "n_routed_experts": 4, "n_shared_experts": 1, "pad_token_id": 0, "vocab_size": _TOKENS, "prediction_length": 8,
}  # fmt: skip
#: What a backbone returns, as the configuration that it is part of has it.
_RESULTS_OF_BACKBONES = frozenset({"out_features", "return_class_token", "reshape_hidden_states", "apply_layernorm"})
#: What names layers of the default configuration, which then has to have as many. A backbone that is no part of another
#: model names those that it has.
_CHOSEN_LAYERS = ("backbone_out_indices", "intermediate_hidden_state_indices")
_LAYERS = ("num_hidden_layers", "num_layers")
#: The names that the number of bands of a spectrogram has.
_BANDS = ("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim")
_MOST_WEIGHTS = 2**25
_AXES = {
    "input_ids": {0: "batch", 1: "sequence"},
    "decoder_input_ids": {0: "batch"},
    "attention_mask": {0: "batch", 1: "sequence"},
    "pixel_values": {0: "batch"},
    "pixel_values_videos": {0: "batch"},
    "input_values": {0: "batch"},
    "input_features": {0: "batch"},
    "noise": {0: "batch"},
    "bbox": {0: "batch", 1: "sequence"},
    "visual_feats": {0: "batch"},
    "visual_pos": {0: "batch"},
    "visual_embeds": {0: "batch"},
}


class Called(nn.Module):
    """A model that is called with tensors by their names, and returns all tensors of its result, without caches."""

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.names = names
        accepted = inspect.signature(model.forward).parameters
        self.fixed = {"use_cache": False} if "use_cache" in accepted else {}

    def forward(self, *tensors: Tensor) -> list[Tensor]:
        given = dict(zip(self.names, tensors, strict=True))
        if "attention_mask" in given:
            # The first token is always attended to: a row without any has results that mean nothing.
            mask = given["attention_mask"]
            given["attention_mask"] = torch.cat([torch.ones_like(mask[:, :1]), mask[:, 1:]], 1)
        result = self.model(**given, **self.fixed)
        # A backbone's features are a tuple in its result.
        parts = [part for each in result.to_tuple() for part in (each if isinstance(each, tuple) else (each,))]
        return [part for part in parts if isinstance(part, Tensor)]


def _transformers() -> Any:
    # transformers imports torchvision, which has to be imported in a certain way beside some builds of torch.
    import_module("onnx_parity.model_zoo.torchvision_import")
    return import_module("transformers")


@cache
def _names() -> Sequence[str]:
    """The types of all configurations that have a model."""
    return sorted(_transformers().models.auto.modeling_auto.MODEL_MAPPING_NAMES)


def _build(name: str) -> Built:
    transformers = _transformers()
    return _first_that_builds(name, transformers.CONFIG_MAPPING[name], transformers.AutoModel.from_config)


@cache
def class_names() -> Sequence[str]:
    """All classes of models, by their names alone: importing them takes minutes. First one class of each architecture,
    then the second of each, and so on; of an architecture, those that generate first, and those without a head last."""
    transformers = _transformers()
    of_architecture: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(
        dir(transformers),
        key=lambda name: (name.endswith("Model"), not name.endswith(("ForCausalLM", "ForConditionalGeneration")), name),
    ):
        if re.search(".(Model|Backbone|For[A-Z][A-Za-z0-9]*)$", name) and not re.match(
            "Auto|.*PreTrainedModel$|TF", name
        ):
            of_architecture[transformers._class_to_module[name]].append(name)
    ranked = ((rank, name) for names in of_architecture.values() for rank, name in enumerate(names))
    return [name for _, name in sorted(ranked)]


def _build_class(name: str) -> Built:
    cls = getattr(_transformers(), name)
    try:
        config = getattr(cls, "config_class", None)
    except ImportError as error:
        raise CannotBuildError("it needs a package that is not installed") from error
    if config is None or not hasattr(cls, "_from_config"):
        raise CannotBuildError("it is no class of a model with a configuration")
    return _first_that_builds(config.model_type, config, cls._from_config)


def _first_that_builds(name: str, config: Any, make: Callable[[Any], Any]) -> Built:
    reasons = []
    for other_sizes in _VARIANTS:
        try:
            module, inputs = _built(config, make, other_sizes)
        except CannotBuildError as error:
            reasons.append(error)
            if "input_ids" not in str(error) and "builds no small one" not in str(error):
                break  # Other sizes help language models; those that see would take minutes.
            continue
        return Built(module, inputs, {"batch": (1, 3), "sequence": (9,)}, _FIXED_OF.get(name, ()))
    raise reasons[0]


def _built(
    of: Any, make: Callable[[Any], Any], other_sizes: Mapping[str, int | Sequence[int] | None]
) -> tuple[nn.Module, Mapping[str, Maker]]:
    try:
        config = _small(of, other_sizes)
        if other_sizes:
            _refuse_if_large(make, config)
        try:
            model = make(config).eval()
        except ValueError as error:
            if "backbone is not set" not in str(error):
                raise
            model = make(_with_backbone(config)).eval()
    except Exception as error:
        # What is wrong with a configuration stands on the second line.
        reason = " ".join(str(error).split())[:200]
        raise CannotBuildError(f"transformers builds no small one of it: {type(error).__name__}: {reason}") from error
    return first_that_runs((Called(model, tuple(makers)), makers) for makers in _candidates(model))


def _small(cls: Any, other_sizes: Mapping[str, Any], given: Any = None) -> Any:
    """A configuration of a class with small sizes, and what is `given` of a backbone's results; the configurations
    inside of it are small too."""
    default = cls() if given is None else given
    of_class = _OWN_SIZES.get(cls.model_type, {})
    choices = _CHOSEN_LAYERS if given is None else (*_CHOSEN_LAYERS, "out_features")
    if any(getattr(default, name, None) for name in choices):
        of_class = {**dict.fromkeys(_LAYERS), **of_class}
    other_sizes = {**other_sizes, **of_class}
    sizes: dict[str, Any] = {**_SIZE_OF, **other_sizes}
    settings: dict[str, Any] = {}
    for key, value in default.to_dict().items():
        inner = getattr(default, key, None) if isinstance(value, dict) else None
        if hasattr(inner, "to_dict") and hasattr(inner, "model_type"):
            settings[key] = _small(type(inner), other_sizes, inner)
        elif given is not None and key in _RESULTS_OF_BACKBONES:
            settings[key] = value
        elif isinstance(value, list) and isinstance(other_sizes.get(key), list):
            settings[key] = other_sizes[key]
        elif type(value) is int and isinstance(size := sizes.get(key), int):
            settings[key] = min(value, size)
        elif type(value) is int and key.endswith("token_id") and value >= _TOKENS:
            settings[key] = _TOKENS - 1
        elif value is None and of_class.get(key) is not None:
            settings[key] = of_class[key]
        elif value is None and key in _MISSING and key not in other_sizes:
            settings[key] = _MISSING[key]
        elif key == "hidden_sizes" and isinstance(getattr(default, key), tuple):
            settings[key] = list(value)  # Backbones put it together with another list.
    return cls(**settings)


def _refuse_if_large(make: Callable[[Any], Any], config: Any) -> None:
    """Refuse a model of gigabytes, which other sizes than the small ones may make."""
    with torch.device("meta"):
        count = sum(each.numel() for each in make(config).parameters())
    if count > _MOST_WEIGHTS:
        raise ValueError(f"it has {count:,} weights")


def _with_backbone(config: Any) -> Any:
    """The configuration of a detector, which has no default backbone, with a small ResNet."""
    stages = ["stage2", "stage3", "stage4"] if hasattr(config, "num_feature_levels") else ["stage4"]
    config.backbone_config = _transformers().ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 32, 32], depths=[1, 1, 1, 1], layer_type="basic", out_features=stages
    )
    config.use_timm_backbone = False
    return config


def _candidates(model: Any) -> Iterator[Mapping[str, Maker]]:
    """Inputs that the model may take, by what it says of itself."""
    accepted = set(inspect.signature(model.forward).parameters)
    config = model.config
    words = min(_TOKENS, getattr(config, "vocab_size", None) or _TOKENS) - 3
    ids = {"input_ids": ints(2, 7, low=3, high=words)}
    if "attention_mask" in accepted:
        ids["attention_mask"] = ints(2, 7, high=2)
    decoder = {"decoder_input_ids": ints(2, 5, low=3, high=_TOKENS - 3)} if "decoder_input_ids" in accepted else {}
    main = model.main_input_name
    if main == "input_ids":
        yield {**ids, **decoder}
        yield {"input_ids": ids["input_ids"]}
        if hasattr(config, "question_token_id"):
            question = [3, config.question_token_id, 4, 5, 6, 7, 8]
            yield {**ids, "input_ids": given([question, question[::-1]])}
        # Several choices of each sample; where words are on a page; pictures beside them.
        yield {"input_ids": ints(2, 3, 7, low=3, high=_TOKENS - 3)}
        yield {**ids, **{name: maker for name, maker in _BESIDE_WORDS.items() if name in accepted}}
    if "bool_masked_pos" in accepted and "pixel_values" in accepted and hasattr(config, "tubelet_size"):
        frames, side = config.num_frames, config.image_size
        count = frames // config.tubelet_size * (side // config.patch_size) ** 2
        places = given([[place % 2 == 0 for place in range(count)]] * 2)
        yield {"pixel_values": floats(2, frames, config.num_channels, side, side), "bool_masked_pos": places}
    if "noise" in accepted and hasattr(config, "masked_unit_size"):
        spans = zip(config.image_size, config.patch_stride, config.masked_unit_size, strict=True)
        count = math.prod(size // stride // unit for size, stride, unit in spans)
        yield {"pixel_values": floats(2, config.num_channels, *config.image_size), "noise": floats(2, count)}
    for image in _images(config) if "pixel_values" in accepted else ():
        # Without it, which places are seen is drawn in each call.
        if "noise" in accepted and hasattr(config, "patch_size"):
            yield {"pixel_values": image, "noise": floats(2, (image.shape[2] // config.patch_size) ** 2)}
        yield {"pixel_values": image}
        if "input_ids" in accepted:
            yield {**ids, "pixel_values": image}
        if decoder and "input_ids" not in accepted:
            yield {"pixel_values": image, **decoder}
        if "prompt_pixel_values" in accepted:
            half = floats(2, image.shape[1], image.shape[2] // 2, image.shape[3])
            yield {"pixel_values": half, "prompt_pixel_values": half, "prompt_masks": half}
    if "input_values" in accepted:
        yield {"input_values": floats(2, 1600), **decoder}
        yield {"input_values": floats(2, 1, 1600)}
        yield {"input_values": floats(2, getattr(config, "max_length", 64), getattr(config, "num_mel_bins", 16))}
    if "input_features" in accepted:
        parts = [config, *(getattr(config, name, None) for name in _HEARING)]
        bins = next((getattr(part, key) for part in parts for key in _BANDS if hasattr(part, key)), 80)
        frames = 2 * getattr(config, "max_source_positions", 16)
        yield {"input_features": floats(2, bins, frames), **decoder}
        yield {"input_features": floats(2, frames, bins), **decoder}
    if "past_values" in accepted:
        length = getattr(config, "context_length", 32)
        channels = getattr(config, "num_input_channels", 1)
        yield {"past_values": floats(2, length, channels)}
        lags = max(getattr(config, "lags_sequence", None) or [0])
        past = {"past_values": floats(2, length + lags), "past_observed_mask": floats(2, length + lags, low=1, high=1)}
        yield {**past, "past_time_features": floats(2, length + lags, getattr(config, "num_time_features", 0))}
    if "audio_values" in accepted or "speech" in accepted:
        yield {"audio_values": floats(2, 1, 1600)}
    if "inputs" in accepted:
        yield {"inputs": ints(2, 7, low=3, high=_TOKENS - 3)}
    if "hidden_states" in accepted:
        yield {"hidden_states": floats(2, 7, getattr(config, "hidden_size", 32))}
    if "input_embeds" in accepted or "inputs_embeds" in accepted:
        yield {"inputs_embeds": floats(2, 7, getattr(config, "hidden_size", 32))}
    if "pixel_values_videos" in accepted:
        for image in _images(config):
            pictures = getattr(config, "frames_per_clip", getattr(config, "num_frames", 4))
            yield {"pixel_values_videos": floats(2, pictures, *image.shape[1:])}


#: The parts of a configuration of a model that hears.
_HEARING = ("audio_config", "encoder_config")
#: What some models take beside words, or in place of them.
_BESIDE_WORDS = {
    "bbox": ints(2, 7, 4, high=20),
    "visual_feats": floats(2, 5, 2048),
    "visual_pos": floats(2, 5, 4),
    "visual_embeds": floats(2, 5, 512),
}


def _images(config: Any) -> Iterator[Maker]:
    inner = getattr(config, "vision_config", None) or getattr(config, "backbone_config", None) or config
    if not hasattr(inner, "image_size"):
        inner = getattr(inner, "backbone_config", None) or inner
    # Detectors that look at several scales normalize over the pixels of the smallest, of which there have to be some.
    size = getattr(inner, "image_size", None) or (128 if hasattr(config, "num_feature_levels") else 32)
    height, width = size if isinstance(size, list | tuple) else (size, size)
    channels = getattr(inner, "num_channels", 3)
    yield floats(2, channels, height, width)
    yield floats(2, channels, 64, 64)
    yield floats(2, channels, 224, 224)
    pictures: int | None = getattr(config, "num_frames", None)
    if pictures:
        yield floats(2, pictures, channels, height, width)


transformers_models = every(
    "transformers", _names, _build, extra="zoo", few=("bert", "gpt2", "llama", "vit"), dynamic=_AXES
)
transformers_classes = every("transformers", class_names, _build_class, extra="zoo", dynamic=_AXES)
