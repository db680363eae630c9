"""Arithmetic in scripts whose factors depend on values: `x.add(y, alpha=n)`, `x.addcmul(y, z, value=n)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.script.numbers import depends_on_values
from onnx_parity.exporter.script.operator_arguments import beside
from onnx_parity.exporter.script.unknown_numbers import scale, with_factors_as_tensors, with_numbers_as_tensors

__all__: list[str] = []


@with_numbers_as_tensors("add", "add_", "sub", "sub_", "rsub")
def add(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    if not depends_on_values(given.get("alpha")):
        return NotImplemented
    x, other = given["self"], given["other"]
    other = other if isinstance(other, torch.Tensor) else beside(blocks, x, other)
    return getattr(torch.ops.aten, given["name"])(x, scale(blocks, other, given["alpha"]))


with_factors_as_tensors({"addcmul": torch.mul, "addcdiv": torch.div})
