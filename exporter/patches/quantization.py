"""Patches the functions that quantize a tensor: its fake counterpart does not exist, so a `Quantized` is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from msgspec.structs import replace

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.kinds.quantized import Quantized, quantized
from onnx_parity.exporter.torch_inside.patch import FunctionAttribute, Patch

__all__ = ["PATCHES"]


def _quantize(torchs: Callable[..., Any], input: Any, scale: Any, zero_point: Any, dtype: torch.dtype) -> Quantized:
    return replace(quantized(input, scale, zero_point, dtype), is_new=True)


def _refuse(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    raise refused_here(
        "the program quantizes a tensor with one scale for each channel, or with a scale that it computes from the "
        "values: only weights may have several, so use torch.quantize_per_tensor"
    )


PATCHES: tuple[Patch, ...] = (
    FunctionAttribute(torch, "quantize_per_tensor", _quantize),
    FunctionAttribute(torch, "quantize_per_channel", _refuse),
    FunctionAttribute(torch, "quantize_per_tensor_dynamic", _refuse),
)
