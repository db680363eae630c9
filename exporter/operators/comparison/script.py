"""Choices between two numbers in scripts: `torch.where(x > 0, n, 1.0)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.script.unknown_numbers import dtype_of_result, with_numbers_as_tensors

__all__: list[str] = []


@with_numbers_as_tensors("where")
def where(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    """The result for two numbers has the default dtype for these numbers."""
    if any(isinstance(given[name], torch.Tensor) and given[name].ndim for name in ("self", "other")):
        return NotImplemented
    one, other = (blocks.as_tensor(given[name]) for name in ("self", "other"))
    return torch.where(given["condition"], one.to(dtype_of_result({}, one)), other.to(dtype_of_result({}, other)))
