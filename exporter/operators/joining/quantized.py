"""Quantized tensors that are joined, repeated and taken apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.kinds.quantized import Quantized, keeps_scale, quantized, quantized_rule, rounds_to_scale

keeps_scale("repeat", "chunk", "split", "unbind")
rounds_to_scale("cat", "concat")


@quantized_rule("quantized::cat")
def cat(func: Callable[..., Any], first: Quantized, values: list[Any], kwargs: dict[str, Any]) -> Quantized:
    # Its axis is before the scale, and either may be named.
    tensors, *rest = values
    named = dict(zip(("dim", "scale", "zero_point"), rest, strict=False)) | kwargs
    scale, zero_point = named.get("scale"), named.get("zero_point")
    return quantized(
        torch.cat(tensors, named.get("dim", 0)),
        first.scale if scale is None else scale,
        first.zero_point if zero_point is None else zero_point,
        first.dtype,
    )
