"""Quantized tensors in another shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.kinds.quantized import Quantized, keeps_scale, quantized_rule, returns_no_tensor

keeps_scale(
    "transpose", "permute", "reshape", "view", "flatten", "squeeze", "unsqueeze", "expand", "expand_as", "clone",
    "contiguous", "detach", "t", "movedim", "flip", "unflatten", "channel_shuffle", "pixel_shuffle",
)  # fmt: skip
returns_no_tensor("size", "dim", "numel", "nelement", "stride", "__len__", "ndimension", "is_contiguous")


@quantized_rule("as_strided")
def as_strided(func: Callable[..., Any], first: Quantized, floats: list[Any], kwargs: dict[str, Any]) -> Quantized:
    if not (first.is_new and first.value.is_contiguous()):
        raise refused_here(
            "the program gives a quantized tensor to as_strided whose order in memory is not known: quantize a "
            "contiguous tensor and give that, or use slices, unfold or expand"
        )
    return first.with_value(func(*floats, **kwargs))
