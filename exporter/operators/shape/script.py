"""Copies in scripts into tensors of other dynamic sizes."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.script.operator_arguments import from_python
from onnx_parity.exporter.script.parse import Step
from onnx_parity.exporter.script.steps import step_of

__all__: list[str] = []


@step_of("aten::copy_")
def copy_into(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """Copy what fits only if one of its dynamic sizes is 1. A branch that the example does not take may do so. For any
    other size torch raises, and Reshape does so when the model runs."""
    target, source = arguments[:2]
    if not blocks.recorder.in_block or not isinstance(source, torch.Tensor) or source.ndim > target.ndim:
        return NotImplemented
    whole = target.shape[target.ndim - source.ndim :]
    narrowed = [
        axis
        for axis, known in enumerate(whole)
        if isinstance(known, int) and known == 1 and isinstance(source.shape[axis], torch.SymInt)
    ]
    if not narrowed:
        return NotImplemented
    sizes = [1 if axis in narrowed else size for axis, size in enumerate(source.shape)]
    value = blocks.take(source)
    made = blocks.recorder.stand_in(source.dtype, sizes, source.device)
    blocks.recorder.add(torch.ops.aten.view.default, {"self": blocks.recorder.value_of(value), "size": sizes}, [made])
    return from_python(target.copy_(blocks.give(made)))
