"""`genai_config.json`, which onnxruntime-genai reads: the sizes of a language model, its tokens and its inputs.

The caches are kept in one buffer each, into which a step writes its tokens, if the model allows it. Otherwise each step
is given a cache and returns a longer one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnx_parity.exporter.rewrites.for_onnxruntime.lengths import shares_buffers

__all__ = ["genai_config", "write_genai_config"]

#: The inputs beside the cache that onnxruntime-genai gives to a model.
_GIVEN = ("input_ids", "attention_mask", "position_ids")
#: The length that is given for a model that takes any number of tokens.
_WITHOUT_LIMIT = 4096
_OF_LAYER = re.compile(r"(.+\.)0(\.(key|value))")
_OF_CACHE = re.compile(r".+\.\d+\.(key|value)")


def write_genai_config(model: ir.Model, program: object, path: Path) -> bool:
    """Write the file beside the model, if the program is a language model of transformers with a cache, and return
    whether it is."""
    found = genai_config(model, program, path.name)
    if found is not None:
        path.with_name("genai_config.json").write_text(json.dumps(found, indent=4) + "\n", "utf-8")
    return found is not None


def genai_config(model: ir.Model, program: object, filename: str) -> Mapping[str, Any] | None:
    """What the file has; None if the program has no configuration, or the model no tokens and no cache."""
    config: Any = getattr(program, "config", None)
    inputs, outputs = ([value.name or "" for value in ends] for ends in (model.graph.inputs, model.graph.outputs))
    past, present = _caches(inputs), _caches(outputs)
    if not hasattr(config, "get_text_config") or "input_ids" not in inputs or {*past} != {"key", "value"} != {*present}:
        return None
    text = config.get_text_config(decoder=True)
    heads = text.num_attention_heads
    length = getattr(text, "max_position_embeddings", None) or _WITHOUT_LIMIT
    tokens = getattr(program, "generation_config", None) or text
    named = {f"{name}_token_id": _known(f"{name}_token_id", tokens, text) for name in ("bos", "eos", "pad")}
    return {
        "model": {
            **{name: number for name, number in named.items() if number is not None},
            "context_length": length,
            "decoder": {
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
                "filename": filename,
                "head_size": getattr(text, "head_dim", None) or text.hidden_size // heads,
                "hidden_size": text.hidden_size,
                "inputs": {
                    **{name: name for name in _GIVEN if name in inputs},
                    **{f"past_{part}_names": name for part, name in past.items()},
                },
                "outputs": {"logits": outputs[0], **{f"present_{part}_names": name for part, name in present.items()}},
                "num_attention_heads": heads,
                "num_hidden_layers": text.num_hidden_layers,
                "num_key_value_heads": getattr(text, "num_key_value_heads", None) or heads,
            },
            # onnxruntime-genai knows some architectures by name. This one stands for any model with these inputs.
            "type": "decoder",
            "vocab_size": text.vocab_size,
        },
        "search": {"max_length": length, "past_present_share_buffer": _shares_buffers(model)},
    }


def _caches(names: Iterable[str]) -> dict[str, str]:
    """The names of a cache's keys and values, with %d for the number of the layer."""
    found = (_OF_LAYER.fullmatch(name) for name in names)
    return {each[3]: f"{each[1]}%d{each[2]}" for each in found if each is not None}


def _shares_buffers(model: ir.Model) -> bool:
    return shares_buffers([value for value in model.graph.inputs if _OF_CACHE.fullmatch(value.name or "")])


def _known(name: str, *holders: object) -> Any:
    return next((found for each in holders if (found := getattr(each, name, None)) is not None), None)
