"""Whether onnxruntime-genai chooses eager's tokens with exported models: `python -m benchmarks.generation.genai`.

Needs transformers and onnxruntime-genai. All models are small and have random weights.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

import onnx_parity
from benchmarks.generation.decoding import Subject
from benchmarks.generation.models import CONFIGURATIONS, subject_of
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
    """Count the tokens that are those of eager, up to the one that ends a text, and say whether a cache is one buffer.

    There are one sample and three, and one sample whose prompt is given in two parts. Exits with 1 if one is not equal.
    """
    warnings.simplefilter("ignore")
    genai, all_equal = import_module("onnxruntime_genai"), True
    for name in choose("--models", models, dict.fromkeys(_MODELS)):
        for opset in opsets.split(","):
            subject = subject_of(name, "dynamic")
            with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
                config = _export(name, subject, int(opset), Path(folder))
                model = genai.Model(folder)
                found = [_equal(genai, model, config, subject, *each, tokens) for each in ((1, 0), (3, 0), (1, 3))]
            all_equal &= all(equal == count for equal, count in found)
            buffer = "one buffer" if config["search"]["past_present_share_buffer"] else "a longer cache each step"
            shown = "".join(f"{f'{equal} of {count}':<14}" for equal, count in found)
            print(f"{name:<14}opset {opset:<6}{shown}{buffer}", flush=True)
    raise typer.Exit(0 if all_equal else 1)


def _export(name: str, subject: Subject, opset: int, folder: Path) -> Mapping[str, Any]:
    """Write the model and its configuration, and return this."""
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
    config: dict[str, Any] = json.loads((folder / "genai_config.json").read_text("utf-8"))
    # The program's own would be chosen by eager too, which goes on after it.
    config["model"]["eos_token_id"] = [CONFIGURATIONS[name]["vocab_size"] - 1]
    (folder / "genai_config.json").write_text(json.dumps(config), "utf-8")
    return config


def _equal(
    genai: Any, model: Any, config: Mapping[str, Any], subject: Subject, batch: int, first: int, count: int
) -> tuple[int, int]:
    """How many tokens are eager's, and how many there are. With `first`, so many of the prompt are given alone."""
    prompt = torch.randint(3, 90, (batch, _PROMPT), generator=torch.Generator().manual_seed(batch + first))
    given = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}
    wanted = subject.generate(given, count).sequences[:, _PROMPT:].tolist()
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=_PROMPT + count, batch_size=batch, do_sample=False)
    generator = genai.Generator(model, params)
    for part in (prompt[:, :first], prompt[:, first:]) if first else (prompt,):
        generator.append_tokens(part.numpy().astype(np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    equal = total = 0
    for place, row in enumerate(wanted):
        end = config["model"]["eos_token_id"][0]
        text = row[: row.index(end)] if end in row else row
        got = [int(each) for each in generator.get_sequence(place)][_PROMPT:]
        total += len(text)
        equal += next((i for i, each in enumerate(text) if i >= len(got) or got[i] != each), len(text))
    return equal, total


if __name__ == "__main__":
    typer.run(main)
