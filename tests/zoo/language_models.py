"""Small language models of transformers with random weights, and greedy decoding with and without onnxruntime."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnxruntime
import torch

import onnx_parity
from benchmarks.generation.models import CONFIGURATIONS

DECODERS = (
    "llama", "qwen2", "gemma", "gemma2", "phi", "phi3", "mistral", "gemma3_text", "gpt_oss", "mixtral", "qwen2_moe",
    "gpt2", "falcon", "bloom", "opt", "gpt_neox",
)  # fmt: skip
#: Architectures with an encoder, whose result the decoder reads.
ENCODER_DECODERS = ("t5", "bart", "whisper")

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
    config = transformers.AutoConfig.for_model(name, **CONFIGURATIONS[name])
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def encoder_decoder(name: str) -> tuple[Any, torch.Tensor]:
    """A model with random weights, and what its encoder is given."""
    import transformers

    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **CONFIGURATIONS[name])
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
