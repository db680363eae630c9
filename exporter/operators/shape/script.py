"""Copies in scripts into tensors of other dynamic sizes, and questions about how a tensor lies in memory."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Varying, same_size
from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.script.operator_arguments import MEMORY_FORMATS, from_python
from onnx_parity.exporter.script.parse import Step
from onnx_parity.exporter.script.steps import step_of
from onnx_parity.exporter.script.values import ScriptList
from onnx_parity.exporter.sizes.layouts import order_of

__all__: list[str] = []


@step_of("aten::is_contiguous")
def is_contiguous(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """A condition on dynamic sizes, by which the model branches."""
    x, *numbers = arguments
    blocks.recorder.unclear_layouts.refuse(x)
    answer = _is_contiguous(x, MEMORY_FORMATS[numbers[0]] if numbers else torch.contiguous_format)
    return blocks.recorder.layouts_asked.answer(x, answer)


def _is_contiguous(x: torch.Tensor, memory_format: torch.memory_format) -> Any:
    order = order_of(memory_format, x.ndim)
    if order is None or not any(isinstance(size, Varying) for size in x.shape):
        return x.is_contiguous(memory_format=memory_format)
    lies_in_order: Any = True
    expected: Any = 1
    for axis in order:
        size, stride = x.shape[axis], x.stride()[axis]
        if not same_size(stride, expected):
            lies_in_order = ((size == 1) | (stride == expected)) & lies_in_order
        expected = expected * size
    return functools.reduce(operator.or_, (size == 0 for size in x.shape), lies_in_order)


@step_of("aten::stride")
def stride(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """Strides are refused where they depend on the branch that has run."""
    x, *axis = arguments
    blocks.recorder.unclear_layouts.refuse(x)
    blocks.recorder.layouts_asked.ask(x, exactly=True)
    return x.stride(axis[0]) if axis else ScriptList(list(x.stride()))


@step_of("aten::ravel")
def ravel(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """A copy of what is not contiguous, unlike that of `reshape`."""
    x = arguments[0]
    return blocks.recorder.layouts_asked.raveled(x) if isinstance(x, torch.Tensor) else NotImplemented


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
