"""The steps of a script that the interpreter runs itself, by their kinds, and the decorators that register them.

    @step_of("aten::copy_")
    def copy_into(blocks, step, arguments): ...

    @with_numbers_as_tensors("full")
    def full(blocks, given): ...

Most steps are operators, which are called as they are. A step with a function of its own calls that; `NotImplemented`
means that the operator of its name is called. Where numbers that depend on values are given to an operator that takes
plain numbers, the second kind of function writes the operator with tensors of one number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._ops import OpOverload

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.registry.rules import Aspect, Rule, add, load
from onnx_parity.exporter.script.parse import Step

__all__ = ["call_with_tensors", "step_function", "step_of", "with_numbers_as_tensors"]

_Do = Callable[[Blocks, Step, list[Any]], Any]
_Write = Callable[[Blocks, Mapping[str, Any]], Any]

_steps: dict[str, _Do] = {}
_writers: dict[str, _Write] = {}


def step_of(*kinds: str) -> Callable[[_Do], _Do]:
    """Let the decorated function run steps of these kinds."""

    def register(do: _Do) -> _Do:
        _steps.update(dict.fromkeys(kinds, do))
        for kind in kinds:
            add(Rule(kind, Aspect.SCRIPT, do))
        return do

    return register


def step_function(kind: str) -> _Do | None:
    """The function that runs a step; None if the operator of that name is called."""
    load(Aspect.SCRIPT)
    return _steps.get(kind)


def with_numbers_as_tensors(*names: str) -> Callable[[_Write], _Write]:
    """Let the decorated function compute operators of these names where a number depends on values."""

    def register(write: _Write) -> _Write:
        _writers.update(dict.fromkeys(names, write))
        for name in names:
            add(Rule(f"aten::{name}", Aspect.SCRIPT, write))
        return write

    return register


def call_with_tensors(blocks: Blocks, operator: OpOverload, arguments: Mapping[str, Any]) -> Any:
    """The result of an operator whose numbers depend on values; `NotImplemented` if there is no function for it."""
    name = operator._schema.name.removeprefix("aten::")
    writer = _writers.get(name)
    if writer is None:
        return NotImplemented
    given = {parameter: _sizes(blocks, value) for parameter, value in arguments.items()}
    result = writer(blocks, {**given, "name": name})
    if result is NotImplemented:
        return NotImplemented
    out = arguments.get("out")
    if arguments.get("device") is not None:
        result = result.to(arguments["device"])
    return result if out is None else torch.add(result, torch.zeros([], dtype=result.dtype), out=out)


def _sizes(blocks: Blocks, value: Any) -> Any:
    """Convert numbers in lists, which are sizes."""
    if not isinstance(value, list):
        return value
    return [blocks.number(item) if isinstance(item, torch.Tensor) and item.ndim == 0 else item for item in value]
