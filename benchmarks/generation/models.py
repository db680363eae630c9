"""The models that decode: small configurations of architectures of transformers, and the cache that each is given."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from benchmarks.generation.decoding import Subject

__all__ = ["CONFIGURATIONS", "ROWS", "subject_of"]

_TOKENS, _WINDOW = 99, 8
#: The tokens that a static cache holds.
_STATIC = 96
_ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_SIZES = {
    "vocab_size": _TOKENS, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, **_ENDS,
}  # fmt: skip
_GROUPED = {**_SIZES, "num_key_value_heads": 2, "max_position_embeddings": 128}
_WINDOWED = {**_GROUPED, "sliding_window": _WINDOW}
_ALTERNATING = ["sliding_attention", "full_attention"]
_EXPERTS = {
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
}  # fmt: skip
_BOTH = {
    "vocab_size": _TOKENS, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "decoder_start_token_id": 5, **_ENDS,
}  # fmt: skip

#: By the names of the architectures in transformers.
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "llama": _GROUPED,
    "qwen2": _GROUPED,
    "qwen3": {**_GROUPED, "head_dim": 8},
    "gemma": {**_GROUPED, "head_dim": 8},
    "phi": _SIZES,
    "phi3": _GROUPED,
    "gpt2": {"vocab_size": _TOKENS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, **_ENDS},
    "gpt_neox": _SIZES,
    "opt": {**_SIZES, "ffn_dim": 37, "word_embed_proj_dim": 32, "max_position_embeddings": 128},
    "falcon": _SIZES,
    "bloom": {**_SIZES, "n_layer": 2, "n_head": 4},
    "mixtral": {**_GROUPED, "num_local_experts": 4},
    "qwen2_moe": {**_GROUPED, **_EXPERTS},
    "mistral": _WINDOWED,
    "gemma2": {**_WINDOWED, "head_dim": 8},
    "gemma3_text": {
        **_WINDOWED, "head_dim": 8, "num_hidden_layers": 3, "layer_types": [*_ALTERNATING, "sliding_attention"],
    },
    "gpt_oss": {**_WINDOWED, "head_dim": 8, "num_local_experts": 4, "layer_types": _ALTERNATING},
    "t5": {
        "vocab_size": _TOKENS, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4,
        "decoder_start_token_id": 0, **_ENDS,
    },
    "bart": {**_BOTH, "max_position_embeddings": 128},
    "whisper": {**_BOTH, "max_source_positions": 16, "max_target_positions": 128, "num_mel_bins": 8},
    "mamba": {
        "vocab_size": _TOKENS, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, "time_step_rank": 4, **_ENDS,
    },
    "jamba": {
        **_GROUPED, "num_experts": 2, "num_experts_per_tok": 1, "attn_layer_period": 2, "attn_layer_offset": 1,
        "mamba_d_state": 4, "mamba_dt_rank": 4,
    },
    "lfm2": {**_GROUPED, "layer_types": ["conv", "full_attention"], "block_ff_dim": 48},
    "qwen3_next": {
        **_GROUPED, **_EXPERTS, "head_dim": 8, "layer_types": ["linear_attention", "full_attention"],
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    },
}  # fmt: skip
_CACHES = {
    "dynamic": (
        "llama", "qwen2", "qwen3", "gemma", "phi", "phi3", "gpt2", "gpt_neox", "opt", "falcon", "bloom", "mixtral",
        "qwen2_moe",
    ),
    "sliding window": ("mistral", "gemma2", "gemma3_text", "gpt_oss"),
    "static": ("llama", "qwen3", "phi3", "mixtral"),
    "encoder and decoder": ("t5", "bart", "whisper"),
    "hybrid": ("mamba", "jamba", "lfm2", "qwen3_next"),
}  # fmt: skip
#: One exported model for the prompt and the tokens after it, where the program does the same for both.
ROWS = [
    (name, cache, merged)
    for cache, names in _CACHES.items()
    for name in names
    for merged in ((True, False) if cache in ("dynamic", "sliding window", "static") else (False,))
]


def subject_of(name: str, cache: str) -> Subject:
    """A model with random weights."""
    # transformers imports torchvision, which only some builds of torch can import without help.
    import_module("onnx_parity.model_zoo.torchvision_import")
    transformers = import_module("transformers")
    config = transformers.AutoConfig.for_model(name, **CONFIGURATIONS[name])
    kinds = {"t5": "Seq2SeqLM", "bart": "Seq2SeqLM", "whisper": "SpeechSeq2Seq"}
    torch.manual_seed(0)
    module = getattr(transformers, f"AutoModelFor{kinds.get(name, 'CausalLM')}").from_config(config).eval()
    module.generation_config.eos_token_id = None
    window = _WINDOW if cache == "sliding window" else 0

    def static(batch: int) -> Any:
        made = transformers.StaticCache(config, _STATIC)
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        # Otherwise its tensors exist only after the first token.
        made.early_initialization(batch, config.num_key_value_heads, size, torch.float32, torch.device("cpu"))
        return made

    def growing(batch: int) -> Any:
        return transformers.DynamicCache(config=config)

    makers = {"dynamic": growing, "sliding window": growing, "static": static}
    return Subject(module, _speech if name == "whisper" else _words, makers.get(cache), window)


def _words(batch: int, length: int) -> dict[str, torch.Tensor]:
    """Prompts of other lengths, padded at the left: without any padding, `generate` calls a model without a mask."""
    ids = torch.randint(3, _TOKENS, (batch, length), generator=torch.Generator().manual_seed(length))
    mask = torch.ones_like(ids)
    for row in range(batch):
        mask[row, : (2, 0, 3)[row % 3]] = 0
    return {"input_ids": ids * mask, "attention_mask": mask}


def _speech(batch: int, length: int) -> dict[str, torch.Tensor]:
    return {"input_features": torch.randn(batch, 8, 32, generator=torch.Generator().manual_seed(length))}
