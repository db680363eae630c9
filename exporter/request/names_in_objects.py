"""Names of the tensors in an object, made from the attributes on the way to each: `state.hidden`, `state.parts.0`.

The names in the caches of language models are those of Hugging Face's tools, so that a runtime which expects those can
run the model. This table is all that is known of these caches:

| in the object | in the name |
|---|---|
| `past_key_values.layers[0].keys` | `past_key_values.0.key` |
| `past_key_values.layers[0].values` | `past_key_values.0.value` |
| `past_key_values.self_attention_cache.layers[0].keys` | `past_key_values.0.decoder.key` |
| `past_key_values.cross_attention_cache.layers[0].keys` | `past_key_values.0.encoder.key` |
| the same in a result | `present.0.key`, ... |

The argument and the field of the result may be called `cache`, as they are since transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx_parity.exporter.containers import has_names, named_leaves
from onnx_parity.exporter.request.marked_inputs import is_input

__all__ = ["input_names_in", "named", "output_names_in"]

_Path = Sequence[str | int]

_LAYERS = "layers"
_OF_A_LAYER = {"keys": "key", "values": "value"}
_OF_BOTH = {"self_attention_cache": "decoder", "cross_attention_cache": "encoder"}
_GIVEN, _RETURNED = "past_key_values", "present"
#: What transformers 5.24 calls both.
_SINCE_5_24 = "cache"


def named(root: str, path: _Path) -> str:
    """The name of what lies at a path of an argument or a result."""
    parts: list[str] = [root] if root else []
    belongs: list[str] = []
    path = list(path)
    in_layer = False
    for place, part in enumerate(path):
        if part == _LAYERS and place + 1 < len(path) and isinstance(path[place + 1], int):
            in_layer = True
        elif in_layer and isinstance(part, int) and path[place - 1] == _LAYERS:
            parts += [str(part), *belongs]
        elif part in _OF_BOTH and _LAYERS in path[place:]:
            belongs.append(_OF_BOTH[str(part)])
        else:
            parts.append(_OF_A_LAYER.get(str(part), str(part)) if in_layer else str(part))
    return ".".join(parts)


def input_names_in(name: str, argument: Any) -> list[str] | None:
    """A name for each input in an argument that is, or that holds, an object with attributes; None for others."""
    if not has_names(argument):
        return None
    names = [
        named(_GIVEN if name == _SINCE_5_24 and _LAYERS in path else name, path)
        for path, leaf in named_leaves(argument)
        if is_input(leaf)
    ]
    return names if len({*names}) == len(names) else None


def output_names_in(result: Any, paths: Sequence[_Path]) -> list[str] | None:
    """A name for each output at these paths of a result that is, or that holds, an object with attributes."""
    if not has_names(result):
        return None
    names = [_output_name(path) for path in paths]
    return names if len({*names}) == len(names) else None


def _output_name(path: _Path) -> str:
    if path and (path[0] == _GIVEN or (path[0] == _SINCE_5_24 and _LAYERS in path)):
        return named(_RETURNED, path[1:])
    unnamed = not path or isinstance(path[0], int)
    inside = path[1:] if path and unnamed else path
    if _LAYERS in inside and (unnamed or inside[0] in (_LAYERS, *_OF_BOTH)):
        return named(_RETURNED, inside)
    if unnamed:
        return named("output" if not path else f"output_{path[0]}", inside)
    return named("", path)
