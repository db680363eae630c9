"""The graphs of an ONNX model: its own, and those of its branches and loops, which are attributes of nodes."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

__all__ = ["graphs_of", "nodes_of"]


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and its subgraphs, outer ones first."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs_of(attribute.g)


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of its subgraphs."""
    for each in graphs_of(graph):
        yield from each.node
