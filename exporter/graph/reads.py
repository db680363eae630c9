"""What is read after a node has run, through the bodies of branches and loops that it is in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from onnx_parity.exporter.graph.block_primitives import IF
from onnx_parity.exporter.graph.graph import Node, Value

__all__ = ["every_node", "read_after"]


def every_node(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes, each with those of its bodies before it."""
    for node in nodes:
        for block in node.blocks():
            yield from every_node(block.nodes)
        yield node


def read_after(node: Node, nodes: Sequence[Node], outputs: Iterable[Value]) -> set[Value] | None:
    """The values that are read after one of these nodes, or of those in their bodies, has run, with the outputs; None
    if it is not among them. A loop may run it again, and then reads what it is given."""
    for place, each in enumerate(nodes):
        inside = set[Value]() if each is node else _read_inside(each, node)
        if inside is not None:
            return inside.union(outputs, *(behind.inputs() for behind in nodes[place + 1 :]))
    return None


def _read_inside(around: Node, node: Node) -> set[Value] | None:
    for block in around.blocks():
        read = read_after(node, block.nodes, block.outputs)
        if read is not None:
            return read if around.op is IF else read.union(block.captured)
    return None
