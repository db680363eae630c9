"""Small language models of transformers with random weights, and greedy decoding with and without onnxruntime."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnxruntime
import torch

import onnx_parity

#: Sizes that most architectures share.
_SIZES = {
    "vocab_size": 99, "hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 4,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
_GROUPED = {**_SIZES, "num_key_value_heads": 2}
_ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}

#: The configurations by the names of the architectures in transformers.
DECODERS: dict[str, dict[str, Any]] = {
    "llama": _GROUPED,
    "qwen2": _GROUPED,
    "gemma": {**_GROUPED, "head_dim": 8},
    "gemma2": {**_GROUPED, "head_dim": 8, "sliding_window": 8},
    "phi": _SIZES,
    "phi3": _GROUPED,
    "mistral": {**_GROUPED, "sliding_window": 8},
    "gemma3_text": {
        **_GROUPED, "head_dim": 8, "sliding_window": 8, "num_hidden_layers": 3,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    },
    "gpt_oss": {**_GROUPED, "head_dim": 8, "sliding_window": 8, "intermediate_size": 48, "num_local_experts": 4},
    "mixtral": {**_GROUPED, "intermediate_size": 48, "num_local_experts": 4},
    "qwen2_moe": {
        **_GROUPED, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
    },
    "gpt2": {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, **_ENDS},
    "falcon": {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, **_ENDS},
    "bloom": {"vocab_size": 99, "hidden_size": 32, "n_layer": 2, "n_head": 4, **_ENDS},
    "opt": {
        "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 37,
        "word_embed_proj_dim": 32, "max_position_embeddings": 64, **_ENDS,
    },
    "gpt_neox": _SIZES,
}  # fmt: skip

_BOTH = {
    "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "decoder_start_token_id": 5, **_ENDS,
}  # fmt: skip
#: Architectures with an encoder, whose result the decoder reads.
ENCODER_DECODERS: dict[str, dict[str, Any]] = {
    "t5": {
        "vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4,
        "decoder_start_token_id": 0,
    },
    "bart": {**_BOTH, "max_position_embeddings": 64},
    "whisper": {**_BOTH, "max_source_positions": 16, "max_target_positions": 64, "num_mel_bins": 8},
}  # fmt: skip

SHAPES = {
    "input_ids": {0: "batch", 1: "sequence"},
    "attention_mask": {0: "batch", 1: "past + sequence"},
    "past_key_values": {0: "batch", 2: "past"},
    "use_cache": None,
}


def decoder(name: str) -> Any:
    """A model with random weights."""
    import transformers

    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **DECODERS[name])
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def encoder_decoder(name: str) -> tuple[Any, torch.Tensor]:
    """A model with random weights, and what its encoder is given."""
    import transformers

    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **ENCODER_DECODERS[name])
    if name == "whisper":
        return transformers.AutoModelForSpeechSeq2Seq.from_config(config).eval(), torch.randn(2, 8, 32)
    model = transformers.AutoModelForSeq2SeqLM.from_config(config).eval()
    return model, torch.tensor([[5, 17, 42, 8], [7, 7, 91, 23]])


def example(model: Any, cache: Any, past: int = 3, new: int = 5) -> dict[str, Any]:
    """The arguments of a call with some tokens in the cache."""
    with torch.no_grad():
        model(input_ids=torch.randint(3, 99, (2, past)), past_key_values=cache, use_cache=True)
    return {
        "input_ids": torch.randint(3, 99, (2, new)),
        "attention_mask": torch.ones(2, past + new, dtype=torch.int64),
        "past_key_values": cache,
        "use_cache": True,
    }


def chosen_by_torch(model: Any, cache: Any, prompt: torch.Tensor, count: int) -> list[list[int]]:
    """The tokens that greedy decoding chooses."""
    tokens, current, mask = [], prompt, torch.ones_like(prompt)
    for _ in range(count):
        with torch.no_grad():
            logits = model(input_ids=current, attention_mask=mask, past_key_values=cache, use_cache=True).logits
        current = logits[:, -1:].argmax(-1)
        tokens.append(current)
        mask = torch.cat([mask, torch.ones_like(current)], 1)
    return torch.cat(tokens, 1).tolist()


@dataclasses.dataclass
class Session:
    """A decoder in onnxruntime, without this package."""

    program: onnx_parity.ONNXProgram

    def __post_init__(self) -> None:
        self.session = onnxruntime.InferenceSession(self.program.serialize())
        self.outputs = [output.name for output in self.session.get_outputs()]

    def empty_cache(self, batch: int) -> dict[str, np.ndarray[Any, Any]]:
        """The values of a cache without tokens."""

        # What is neither the batch nor a number is the length of the past: "past", or "min(7, all - sequence)".
        def size_of(size: int | str) -> int:
            return size if isinstance(size, int) else batch if size == "batch" else 0

        dtypes = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
        return {
            given.name: np.zeros([size_of(size) for size in given.shape], dtypes[given.type])
            for given in self.session.get_inputs()
            if given.name.startswith("past_key_values.")
        }

    def chosen(self, prompt: torch.Tensor, count: int, fixed: dict[str, Any] | None = None) -> list[list[int]]:
        """The tokens that greedy decoding chooses. `fixed` are inputs that stay the same."""
        inputs = {given.name for given in self.session.get_inputs()}
        feeds, tokens = self.empty_cache(len(prompt)), []
        current, mask = prompt.numpy(), np.ones(prompt.shape, np.int64)
        for _ in range(count):
            feeds |= {"input_ids": current, "attention_mask": mask, **(fixed or {})}
            feeds = {name: value for name, value in feeds.items() if name in inputs}
            results = dict(zip(self.outputs, self.session.run(None, feeds), strict=True))
            current = results["logits"][:, -1:].argmax(-1)
            tokens.append(current)
            mask = np.concatenate([mask, np.ones_like(current)], 1)
            feeds = {name.replace("present", "past_key_values"): value for name, value in results.items()}
        chosen: list[list[int]] = np.concatenate(tokens, 1).tolist()
        return chosen
