"""The steps of a script that the interpreter runs itself, by their kinds, and the decorator that registers them.

    @step_of("aten::copy_")
    def copy_into(blocks, step, arguments): ...

Most steps are operators, which are called as they are. A step with a function of its own calls that; `NotImplemented`
means that the operator of its name is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.registry.rules import Aspect, Rule, add, load
from onnx_parity.exporter.script.parse import Step

__all__ = ["step_function", "step_of"]

_Do = Callable[[Blocks, Step, list[Any]], Any]

_steps: dict[str, _Do] = {}


def step_of(*kinds: str) -> Callable[[_Do], _Do]:
    """Let the decorated function run steps of these kinds."""

    def register(do: _Do) -> _Do:
        assert _steps.keys().isdisjoint(kinds), f"there are two functions for steps of one of the kinds {kinds}"
        _steps.update(dict.fromkeys(kinds, do))
        for kind in kinds:
            add(Rule(kind, Aspect.SCRIPT, do))
        return do

    return register


def step_function(kind: str) -> _Do | None:
    """The function that runs a step; None if the operator of that name is called."""
    load(Aspect.SCRIPT)
    return _steps.get(kind)
