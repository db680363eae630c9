"""The walk over the nodes of a graph and of its subgraphs, and whose operators they are."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

__all__ = ["MAY_HAVE_SUBGRAPHS", "all_nodes", "onnx_operator", "subgraphs_of"]

#: The operators of ONNX that have subgraphs.
_WITH_SUBGRAPHS = frozenset({"If", "Loop", "Scan", "SequenceMap"})
#: These, and what `onnx_operator` gives for operators of other domains.
MAY_HAVE_SUBGRAPHS = frozenset({*_WITH_SUBGRAPHS, ""})


def all_nodes(graph: ir.Graph, *, backwards: bool = False) -> Iterator[ir.Node]:
    """Each node, and after it those of its subgraphs. Nodes may be removed meanwhile; one that was has none.

    onnx_ir's `RecursiveGraphIterator` looks at all attributes of all nodes, which took 5 % of an export.
    """
    for node in reversed(graph) if backwards else graph:
        yield node
        if (node.op_type in _WITH_SUBGRAPHS or node.domain) and node.graph is not None:
            for subgraph in subgraphs_of(node):
                yield from all_nodes(subgraph, backwards=backwards)


def subgraphs_of(node: ir.Node) -> Iterator[ir.Graph]:
    """The branches, or the body of a loop, that a node has."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def onnx_operator(node: ir.Node) -> str:
    """The operator of ONNX that a node is of; an empty string for an operator of another domain."""
    return "" if node.domain else node.op_type
