"""Patches of transformers, so that its models run for any number of tokens.

Its caches ask whether they are empty, or whether the window is full, and compute their length and that of the mask in
another way then. The answers here are the same numbers, always computed in one way.

Its selective scans are a loop of Python over the tokens where they are exported, because torch.onnx has no
associative scan. Here it is a loop of the model. Its gated delta rule is linear attention, whatever the size of chunks.
The recurrence of RecurrentGemma has one form for a single token and for several.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx_parity.exporter.patches.libraries.gated_delta_rule import gated_delta_rule
from onnx_parity.exporter.patches.libraries.recurrences import gated_sums
from onnx_parity.exporter.torch_inside.imports import attribute_of
from onnx_parity.exporter.torch_inside.patch import FunctionAttribute, Patch, of_module

__all__ = ["PATCHES"]


def _layer() -> Any:
    return attribute_of("transformers.cache_utils", "DynamicLayer")


def _window() -> Any:
    return attribute_of("transformers.cache_utils", "DynamicSlidingWindowLayer")


def _length(torchs: Callable[..., Any], self: Any) -> Any:
    return self.keys.shape[-2] if _is_filled(self) else torchs(self)


def _mask_sizes(torchs: Callable[..., Any], self: Any, query_length: Any) -> Any:
    """The number of keys, which are those that are kept and the new ones; and how many tokens were before them."""
    if not _is_filled(self) or getattr(self, "record_past", False):  # Then it keeps more than the window.
        return torchs(self, query_length)
    kept = self.keys.shape[-2]
    return kept + query_length, self.cumulative_length - kept


def _is_filled(layer: Any) -> bool:
    """Whether a layer has keys of a batch; the keys of a new one are a vector without elements."""
    return bool(layer.is_initialized) and layer.keys.ndim > 1


#: The models whose function of the scan asks whether it is exported, and asks nothing else.
_SCANNING = tuple(
    f"transformers.models.{model}.modeling_{model}" for model in ("falcon_mamba", "jamba", "mamba", "zamba")
)


#: The models whose linear attention is a function of this name.
_WITH_DELTA_RULE = tuple(
    f"transformers.models.{model}.modeling_{model}"
    for model in ("lara_mini", "olmo_hybrid", "qwen3_5", "qwen3_next", "qwen4_exp")
)


def _recurrent_gemma() -> Any:
    return attribute_of("transformers.models.recurrent_gemma.modeling_recurrent_gemma", "RecurrentGemmaRglru")


def _no(torchs: Callable[[], bool]) -> bool:
    return False


PATCHES: tuple[Patch, ...] = (
    FunctionAttribute(_layer, "get_seq_length", _length),
    FunctionAttribute(_window, "get_mask_sizes", _mask_sizes),
    *(FunctionAttribute(of_module(module), "is_torchdynamo_exporting", _no) for module in _SCANNING),
    *(
        FunctionAttribute(of_module(module), "torch_chunk_gated_delta_rule", gated_delta_rule)
        for module in _WITH_DELTA_RULE
    ),
    FunctionAttribute(_recurrent_gemma, "_rnn_scan", gated_sums),
)
