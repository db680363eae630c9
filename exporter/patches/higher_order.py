"""Patches torch's higher-order operators, such as `torch.cond`, so that their bodies are recorded.

What records them is imported by the first call, because few programs call one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
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
    vmap_impl,
    vmap_of_leaves,
    while_loop,
    while_loop_op,
)
from onnx_parity.exporter.torch_inside.patch import FunctionAttribute, FunctionCode, Patch, of_module
from onnx_parity.exporter.torch_inside.this_thread import recorder_here
from onnx_parity.exporter.torch_inside.transforms import Transform, transforms

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


def _vmap(
    torchs: Callable[..., Any],
    func: Any,
    in_dims: Any,
    out_dims: Any,
    randomness: str,
    chunk_size: int | None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    # The size of a chunk bounds the memory that torch takes, and the results do not depend on it.
    return torchs(func, in_dims, out_dims, randomness, None, *args, **kwargs)


def _vmap_of_leaves(
    torchs: Callable[..., Any], func: Any, batch_size: Any, in_dims: Any, leaves: Any, *args: Any, **kwargs: Any
) -> Any:
    """torch's rules for one more axis are written in C++, and many of them ask for sizes as numbers. What they refuse
    of tensors with dynamic sizes is recorded as a loop over the axis."""
    given = func, batch_size, in_dims, leaves, *args
    sizes = [size for each in leaves if isinstance(each, torch.Tensor) for size in each.shape]
    if all(isinstance(size, int) for size in sizes) or any(each.key() == Transform.Vmap for each in transforms()):
        return torchs(*given, **kwargs)
    if Decision.VMAP_AS_LOOP in recorder_here().decisions:
        return _recorded("vmap", *given, **kwargs)
    try:
        return torchs(*given, **kwargs)
    except Reconsider:
        raise
    except CaptureError as refusal:
        raise Reconsider(Decision.VMAP_AS_LOOP, refusal=refusal) from refusal
    except RuntimeError as error:
        raise Reconsider(Decision.VMAP_AS_LOOP) from error


PATCHES: tuple[Patch, ...] = (
    FunctionCode(of_module(vmap_impl.__module__), vmap_impl.__name__, _vmap),
    FunctionCode(of_module(vmap_of_leaves.__module__), vmap_of_leaves.__name__, _vmap_of_leaves),
    *(_of_function(function, name) for function, name in FUNCTIONS.items()),
    *(_of_operator(operator, name) for operator, name in OPERATORS.items()),
)
