"""Removes nodes and initializers that no output depends on.

onnx_ir's RemoveUnusedNodesPass is not used, because it also removes unused outputs of MaxPool and Dropout, without
which onnxruntime chooses another kernel with wrong results. It also takes 4.9 ms for DenseNet-121; this takes 1.2 ms.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.all_nodes import all_nodes

__all__ = ["remove_unused"]


def remove_unused(model: ir.Model) -> None:
    """Remove nodes and initializers that nothing reads, and nodes of branches and loop bodies that nothing reads there.

    Unused inputs remain, because callers pass them.
    """
    graph = model.graph
    # From the last one, so that what only an unused node or a branch with unused nodes reads is seen to be unused too.
    for node in all_nodes(graph, backwards=True):
        for output in node.outputs:  # A generator would take twice as long.
            if output.uses() or output.is_graph_output():
                break
        else:
            assert node.graph is not None
            node.graph.remove(node, safe=True)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            graph.initializers.pop(name)
