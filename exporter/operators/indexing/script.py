"""Elements that scripts replace by a number that depends on values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.script.numbers import depends_on_values
from onnx_parity.exporter.script.operator_arguments import beside
from onnx_parity.exporter.script.unknown_numbers import with_numbers_as_tensors

__all__: list[str] = []


@with_numbers_as_tensors("scatter", "scatter_")
def scatter(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    if not depends_on_values(given.get("value")) or given.get("reduce") is not None:
        return NotImplemented
    x, index = given["self"], given["index"]
    source = beside(blocks, x, given["value"]).to(x.device, x.dtype).expand(index.shape)
    return getattr(torch.ops.aten, given["name"])(x, given["dim"], index, source)


@with_numbers_as_tensors("masked_fill_")
def masked_fill_(blocks: Blocks, given: Mapping[str, Any]) -> Any:
    """The operator in place can only be functionalized with static sizes."""
    x = given["self"]
    return x.copy_(torch.where(given["mask"], beside(blocks, x, given["value"]).to(x.dtype), x))
