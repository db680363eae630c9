"""Activations in scripts whose slopes and limits depend on values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.script.operator_arguments import beside
from onnx_parity.exporter.script.unknown_numbers import scale, with_numbers_as_tensors

__all__: list[str] = []


def _put(given: Mapping[str, Any], result: torch.Tensor) -> torch.Tensor:
    """The result of an operator, which may work in place."""
    return given["self"].copy_(result) if given["name"].endswith("_") else result


@with_numbers_as_tensors("leaky_relu", "leaky_relu_")
def leaky_relu(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    x = given["self"]
    return _put(given, torch.where(x > 0, x, scale(blocks, x, given["negative_slope"])))


@with_numbers_as_tensors("threshold", "threshold_")
def threshold(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    x = given["self"]
    is_below = x <= beside(blocks, x, given["threshold"])
    return _put(given, torch.where(is_below, beside(blocks, x, given["value"]).to(x.dtype), x))


@with_numbers_as_tensors("hardtanh", "hardtanh_")
def hardtanh(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    x = given["self"]
    low, high = (-1.0 if given["min_val"] is None else given["min_val"]), given["max_val"]
    return _put(given, torch.clamp(x, beside(blocks, x, low), beside(blocks, x, 1.0 if high is None else high)))
