"""Autograd functions with a method `symbolic`. It is called with the arguments of the forward and adds the nodes."""

from __future__ import annotations

from typing import Any

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.recording.autograd_functions import FunctionCall
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("onnx_parity::autograd_function")
def autograd_function(g: Graph, tensors: list[Value], call: FunctionCall) -> tuple[Any, ...]:
    g.is_checked = True
    symbolic: Any = call.function.symbolic  # type: ignore[attr-defined]
    result = symbolic(g, *call.arguments(tensors))
    return tuple(result) if isinstance(result, (list, tuple)) else (result,)
