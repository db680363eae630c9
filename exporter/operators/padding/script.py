"""Padding in scripts with a number that depends on values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.script.numbers import depends_on_values
from onnx_parity.exporter.script.operator_arguments import beside
from onnx_parity.exporter.script.unknown_numbers import with_numbers_as_tensors

__all__: list[str] = []


@with_numbers_as_tensors("constant_pad_nd", "pad")
def pad(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    x, sizes = given["self"], given["pad"]
    if given.get("mode") not in (None, "constant") or not depends_on_values(given.get("value")):
        return NotImplemented
    outside = torch.constant_pad_nd(torch.zeros_like(x, dtype=torch.int32), sizes, 1) > 0
    return torch.where(outside, beside(blocks, x, given["value"]).to(x.dtype), torch.constant_pad_nd(x, sizes))
