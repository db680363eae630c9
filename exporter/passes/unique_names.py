"""Gives values names that no other value has, in the graph and in the branches and loop bodies inside it."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator

import onnx_ir as ir

__all__ = ["free_name", "give_unique_names"]


def give_unique_names(model: ir.Model) -> None:
    """Rename every value that has the name of another one.

    onnx_ir names what passes add by a number that begins anew in each branch and loop body.

    Inputs and outputs keep their names before initializers do, and these before results of nodes.
    """
    graph = model.graph
    kept = {*graph.inputs, *graph.outputs}
    taken = {value.name for value in kept}
    for value in [*graph.initializers.values(), *_results(graph)]:
        if value in kept or value.name is None:
            continue
        if value.name in taken:
            value.name = free_name(value.name, taken)
        taken.add(value.name)


def free_name(stem: str, taken: Container[str | None]) -> str:
    """A name that begins with the stem and is not taken."""
    return next(name for name in (f"{stem}_{number}" for number in itertools.count()) if name not in taken)


def _results(graph: ir.Graph) -> Iterator[ir.Value]:
    """The results of all nodes, and the inputs of branches and loop bodies."""
    for node in graph:
        yield from node.outputs
        for attribute in node.attributes.values():
            if attribute.type is ir.AttributeType.GRAPH:
                inner = attribute.as_graph()
                yield from inner.inputs
                yield from _results(inner)
