"""Patches torch's higher-order operators, such as `torch.cond`, so that their bodies are recorded.

What records them is imported by the first call, because few programs call one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx_parity.exporter.torch_inside.higher_order_ops import (
    associative_scan,
    associative_scan_op,
    cond,
    cond_op,
    flex_attention,
    map,
    map_impl,
    scan,
    scan_op,
    while_loop,
    while_loop_op,
)
from onnx_parity.exporter.torch_inside.patch import FunctionAttribute, FunctionCode, Patch, of_module
from onnx_parity.exporter.torch_inside.this_thread import recorder_here

__all__ = ["FUNCTIONS", "OPERATORS", "PATCHES"]

#: The functions that programs call, with the names of those of `sources/higher_order.py` that record them.
FUNCTIONS: dict[Any, str] = {
    cond: "cond",
    while_loop: "while_loop",
    scan: "scan",
    associative_scan: "associative_scan",
    map: "map_",
}
#: The operators that exported graphs call, likewise.
OPERATORS: dict[Any, str] = {
    cond_op: "cond",
    while_loop_op: "while_loop",
    scan_op: "scan_flat",
    associative_scan_op: "associative_scan_flat",
    map_impl: "map_flat",
    flex_attention: "flex_attention",
}


def _recorded(name: str, *args: Any, **kwargs: Any) -> Any:
    from onnx_parity.exporter.recording.blocks import Blocks
    from onnx_parity.exporter.sources import higher_order

    return getattr(higher_order, name)(Blocks(recorder_here()), *args, **kwargs)


def _of_function(function: Any, name: str) -> Patch:
    """The patch of a function. Unpatched, it would start dynamo, which takes seconds, before it calls its operator."""

    def call(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return _recorded(name, *args, **kwargs)

    return FunctionCode(of_module(function.__module__), function.__name__, call)


def _of_operator(operator: Any, name: str) -> Patch:
    def call(torchs: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
        if self is not operator:
            return torchs(self, *args, **kwargs)
        return _recorded(name, *args, **kwargs)

    return FunctionAttribute(type(operator), "__call__", call)


PATCHES: tuple[Patch, ...] = (
    *(_of_function(function, name) for function, name in FUNCTIONS.items()),
    *(_of_operator(operator, name) for operator, name in OPERATORS.items()),
)
