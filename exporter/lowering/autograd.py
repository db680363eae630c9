"""Autograd functions with a `symbolic`: it writes the node, called as its forward was."""

from __future__ import annotations

from typing import Any

from exporter.capture.autograd_functions import FunctionCall
from exporter.lowering.builder import Graph
from exporter.lowering.registry import lowering
from exporter.lowering.values import Value


@lowering("onnx_parity::autograd_function")
def autograd_function(g: Graph, tensors: list[Value], call: FunctionCall) -> tuple[Any, ...]:
    g.is_checked = True
    symbolic: Any = call.function.symbolic  # type: ignore[attr-defined]
    result = symbolic(g, *call.arguments(tensors))
    return tuple(result) if isinstance(result, (list, tuple)) else (result,)
