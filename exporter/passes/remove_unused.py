"""Leaves out what no output depends on, and lists the weights among the inputs where the IR version asks for it."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["list_initializers_as_inputs", "remove_unused"]


def remove_unused(model: ir.Model) -> None:
    """Remove nodes and initializers that nothing reads. Inputs stay: the caller's arguments are the caller's."""
    graph = model.graph
    for node in reversed(graph):
        if not any(output.uses() or output.is_graph_output() for output in node.outputs):
            graph.remove(node, safe=True)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            graph.initializers.pop(name)


def list_initializers_as_inputs(model: ir.Model) -> None:
    """Until IR version 4 (opset 9) every initializer had to be an input as well."""
    listed = set(model.graph.inputs)
    model.graph.inputs.extend(value for value in model.graph.initializers.values() if value not in listed)
