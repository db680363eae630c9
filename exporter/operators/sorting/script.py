"""Quantiles in scripts that depend on values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.script.numbers import depends_on_values
from onnx_parity.exporter.script.operator_arguments import beside
from onnx_parity.exporter.script.unknown_numbers import with_numbers_as_tensors

__all__: list[str] = []


@with_numbers_as_tensors("quantile", "nanquantile")
def quantile(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    """torch takes a quantile that is a tensor only from the memory in which the numbers of `x` lie."""
    x, q = given["self"], given["q"]
    if not depends_on_values(q):
        return NotImplemented
    options = {"interpolation": given.get("interpolation") or "linear", "keepdim": bool(given.get("keepdim"))}
    return getattr(torch, given["name"])(x, beside(blocks, x, q).to(x.device), given.get("dim"), **options)
