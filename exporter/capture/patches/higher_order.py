"""Patches torch's higher-order operators, such as `torch.cond`, so that their bodies are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx_parity.exporter.capture.patches.patch import FunctionAttribute, FunctionCode, Patch
from onnx_parity.exporter.capture.patches.this_thread import recorder_here
from onnx_parity.exporter.capture.record.blocks import Blocks
from onnx_parity.exporter.capture.sources.higher_order import FUNCTIONS, OPERATORS

__all__ = ["PATCHES"]


def _of_function(function: Any, record: Callable[..., Any]) -> Patch:
    """The patch of a function. Unpatched, it would start dynamo, which takes seconds, before it calls its operator."""

    def call(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return record(Blocks(recorder_here()), *args, **kwargs)

    return FunctionCode(lambda: function, call)


def _of_operator(operator: Any, record: Callable[..., Any]) -> Patch:
    def call(torchs: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
        if self is not operator:
            return torchs(self, *args, **kwargs)
        return record(Blocks(recorder_here()), *args, **kwargs)

    return FunctionAttribute(lambda: type(operator), "__call__", call)


PATCHES: tuple[Patch, ...] = (
    *(_of_function(function, record) for function, record in FUNCTIONS.items()),
    *(_of_operator(operator, record) for operator, record in OPERATORS.items()),
)
