"""Activations of quantized tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F

from onnx_parity.exporter.kinds.quantized import (
    Quantized,
    computes_floats,
    has_own_scale,
    keeps_scale,
    quantized,
    quantized_rule,
    rounds_to_scale,
)

keeps_scale("relu", "relu_", "relu6")
rounds_to_scale("leaky_relu", "hardtanh", "threshold")
has_own_scale("hardsigmoid", 1 / 256, 0, -128)
computes_floats("hardswish")(F.hardswish)
computes_floats("softmax")(F.softmax)
computes_floats("prelu")(F.prelu)


@quantized_rule("quantized::relu6")
def relu6(func: Callable[..., Any], first: Quantized, values: list[Any], kwargs: dict[str, Any]) -> Quantized:
    return quantized(F.relu6(first.value), first.scale, first.zero_point, first.dtype)


@quantized_rule("quantized::leaky_relu")
def leaky_relu(func: Callable[..., Any], first: Quantized, values: list[Any], kwargs: dict[str, Any]) -> Quantized:
    """The slope is before the scale."""
    x, slope, _, scale, zero_point = values
    return quantized(F.leaky_relu(x, slope), scale, zero_point, first.dtype)


def _with_slope_behind_scale(name: str, compute: Callable[..., Any]) -> None:
    def rule(func: Callable[..., Any], first: Quantized, values: list[Any], kwargs: dict[str, Any]) -> Quantized:
        x, scale, zero_point, *alpha = values
        return quantized(compute(x, *alpha[:1]), scale, zero_point, first.dtype)

    quantized_rule(name)(rule)


_with_slope_behind_scale("quantized::elu", F.elu)
_with_slope_behind_scale("quantized::celu", F.celu)
