"""Whether onnxruntime-genai chooses eager's tokens with exported models: `python -m benchmarks.generation.genai`.

Needs transformers and onnxruntime-genai. All models are small and have random weights.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import typer
from numpy.typing import NDArray

import onnx_parity
from benchmarks.generation.decoding import Subject
from benchmarks.generation.models import subject_of
from benchmarks.options import choose

_MODELS = (
    "llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi", "phi3", "mistral", "mixtral", "qwen2_moe",
    "gpt_oss", "gpt2", "opt", "falcon", "gpt_neox", "bloom",
)  # fmt: skip
#: Those that learn positions: onnxruntime-genai counts them.
_COUNTED = ("gpt2", "opt")
_PROMPT = 7
_AXES = {
    "input_ids": {0: "batch", 1: "sequence"},
    "attention_mask": {0: "batch", 1: "past + sequence"},
    "past_key_values": {0: "batch", 2: "past"},
    "use_cache": None,
    "position_ids": {0: "batch", 1: "sequence"},
}


def main(
    models: Annotated[list[str] | None, typer.Option(help="Models by their names or patterns.")] = None,
    tokens: Annotated[int, typer.Option(min=1, help="How many tokens are chosen for each sample.")] = 64,
    opsets: Annotated[str, typer.Option(help="Comma-separated.")] = "18,23",
) -> None:
    """Count the tokens that are those of eager, and say whether a cache is one buffer.

    There are one sample and three, and one sample whose prompt is given in two parts. Exits with 1 if one is not equal.
    """
    warnings.simplefilter("ignore")
    genai, all_equal = import_module("onnxruntime_genai"), True
    for name in choose("--models", models, dict.fromkeys(_MODELS)):
        subject = subject_of(name, "dynamic")
        texts = [_text(subject, batch, first, tokens) for batch, first in ((1, 0), (3, 0), (1, 3))]
        for opset in opsets.split(","):
            with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
                shares = _export(name, subject, int(opset), Path(folder), _unused(texts))
                model = genai.Model(folder)
                found = [(_equal(genai, model, text), text.wanted.size) for text in texts]
            all_equal &= all(equal == count for equal, count in found)
            shown = "".join(f"{f'{equal} of {count}':<14}" for equal, count in found)
            print(
                f"{name:<14}opset {opset:<6}{shown}{'one buffer' if shares else 'a longer cache in each step'}",
                flush=True,
            )
    raise typer.Exit(0 if all_equal else 1)


class _Text(NamedTuple):
    prompt: NDArray[np.int32]
    #: How many tokens of the prompt are given before the others; 0 for all at once.
    first: int
    #: The tokens that eager chooses.
    wanted: NDArray[np.int64]


def _text(subject: Subject, batch: int, first: int, count: int) -> _Text:
    prompt = torch.randint(3, 90, (batch, _PROMPT), generator=torch.Generator().manual_seed(batch + first))
    given = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}
    wanted = subject.generate(given, count).sequences[:, _PROMPT:]
    return _Text(prompt.numpy().astype(np.int32), first, wanted.numpy())


def _unused(texts: Sequence[_Text]) -> int:
    """A token that eager does not choose. onnxruntime-genai ends a text with it, and eager goes on."""
    used = {int(token) for text in texts for token in text.wanted.reshape(-1)}
    return next(token for token in range(3, 99) if token not in used)


def _export(name: str, subject: Subject, opset: int, folder: Path, end: int) -> bool:
    """Write the model and its configuration, and return whether a cache is one buffer."""
    cache = import_module("transformers").DynamicCache()
    with torch.no_grad():
        subject.module(input_ids=torch.randint(3, 90, (2, 3)), past_key_values=cache, use_cache=True)
    arguments = {
        "input_ids": torch.randint(3, 90, (2, 5)),
        "attention_mask": torch.ones(2, 8, dtype=torch.int64),
        "past_key_values": cache,
        "use_cache": True,
    }
    if name in _COUNTED:
        arguments["position_ids"] = torch.arange(3, 8).expand(2, -1)
    onnx_parity.export(
        subject.module, kwargs=arguments, f=folder / "model.onnx", opset_version=opset, target="onnxruntime",
        dynamic_shapes={each: axes for each, axes in _AXES.items() if each in arguments},
    )  # fmt: skip
    config = json.loads((folder / "genai_config.json").read_text("utf-8"))
    config["model"]["eos_token_id"] = [end]
    (folder / "genai_config.json").write_text(json.dumps(config), "utf-8")
    return bool(config["search"]["past_present_share_buffer"])


def _equal(genai: Any, model: Any, text: _Text) -> int:
    """How many tokens are eager's, up to the first other one of each sample."""
    batch, count = text.wanted.shape
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=_PROMPT + count, batch_size=batch, do_sample=False)
    generator = genai.Generator(model, params)
    for part in (text.prompt[:, : text.first], text.prompt[:, text.first :]) if text.first else (text.prompt,):
        generator.append_tokens(part)
    while not generator.is_done():
        generator.generate_next_token()
    got = np.stack([generator.get_sequence(place)[_PROMPT:] for place in range(batch)])
    return int((got == text.wanted).cumprod(1).sum())


if __name__ == "__main__":
    typer.run(main)
