"""Gives values names that no other value has, in the graph and in the branches and loop bodies inside it."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.all_nodes import all_nodes, subgraphs_of
from onnx_parity.exporter.rewrites.engine.new_constants import free_name

__all__ = ["give_unique_names"]


def give_unique_names(model: ir.Model) -> None:
    """Rename every value that has the name of another one.

    onnx_ir names what rewrites add by a number that begins anew in each branch and loop body.

    Inputs and outputs keep their names before initializers do, and these before results of nodes.
    """
    graph = model.graph
    kept = {*graph.inputs, *graph.outputs}
    taken = {value.name for value in kept}
    for value in [*graph.initializers.values(), *_results(graph)]:
        if value in kept or not value.name:
            continue
        if value.name in taken:
            value.name = free_name(value.name, taken)
        taken.add(value.name)


def _results(graph: ir.Graph) -> Iterator[ir.Value]:
    """The results of all nodes, and the inputs of branches and loop bodies."""
    for node in all_nodes(graph):
        yield from node.outputs
        for subgraph in subgraphs_of(node):
            yield from subgraph.inputs
