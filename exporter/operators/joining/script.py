"""Lists of unknown length in scripts: what joins their items, and what splits a tensor into them."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.recording import recorded_lists
from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.script.parse import Step
from onnx_parity.exporter.script.steps import step_of
from onnx_parity.exporter.script.values import ScriptList

__all__: list[str] = []


@step_of("aten::cat", "aten::concat", "aten::stack")
def join(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """Handle a list of unknown length, whose items are already in one tensor or in a list of the graph."""
    parts, axis = arguments[:2]
    if not isinstance(parts, ScriptList) or parts.is_known:
        return NotImplemented
    if parts.sequence is not None:
        return recorded_lists.join_items(blocks, parts.sequence, axis, new_axis=step.kind == "aten::stack")
    if step.kind == "aten::stack":
        return parts.stack.movedim(0, axis)
    rank = parts.stack.ndim - 1
    moved = parts.stack.movedim(0, axis % rank)
    return moved.flatten(axis % rank, axis % rank + 1)


@step_of("aten::unbind")
def unbind(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """Along an axis of unknown length, the result is a list of unknown length."""
    x, axis = arguments
    if isinstance(axis, int) and isinstance(x.shape[axis], torch.SymInt):
        return ScriptList(stack=x.movedim(axis, 0))
    return NotImplemented


@step_of("aten::split", "aten::chunk")
def split(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """Into parts of one size along an axis of unknown length, or into an unknown number of them."""
    x, count, axis = arguments
    if not isinstance(x, torch.Tensor) or isinstance(count, ScriptList) or not isinstance(axis, int):
        return NotImplemented  # Strings are split too.
    length = x.shape[axis]
    depends = isinstance(count, (torch.SymInt, torch.Tensor))
    if not depends and (isinstance(length, int) or step.kind == "aten::chunk"):
        return NotImplemented
    if step.kind == "aten::split" and _has_known_parts(length, count):
        return NotImplemented
    of_nothing = 1
    if step.kind == "aten::chunk":
        of_nothing = blocks.number(count)
        count = torch.sym_max((length + of_nothing - 1) // of_nothing, 1)
    return ScriptList(sequence=recorded_lists.split_tensor(blocks, x, count, axis % x.ndim, of_nothing))


def _has_known_parts(length: Any, count: Any) -> bool:
    """Whether an axis of this length has the same number of parts of size `count`, whatever the sizes are."""
    if not isinstance(count, torch.SymInt):
        return False
    parts = (length + count - 1) // count
    return isinstance(parts, int) or bool(parts.node.shape_env.has_one_value(parts.node.expr))
