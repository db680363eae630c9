"""Patches of transformers: what its caches say of their length and of the mask, for any number of tokens.

Its own functions ask whether the cache is empty, or whether the window is full, and compute the answer in another way
then. The answers here are the same numbers, always computed in one way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx_parity.exporter.torch_inside.imports import attribute_of
from onnx_parity.exporter.torch_inside.patch import FunctionAttribute, Patch

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


PATCHES: tuple[Patch, ...] = (
    FunctionAttribute(_layer, "get_seq_length", _length),
    FunctionAttribute(_window, "get_mask_sizes", _mask_sizes),
)
