"""What is read after a node has run, through the bodies of branches and loops that it is in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from onnx_parity.exporter.graph.block_primitives import IF
from onnx_parity.exporter.graph.graph import Node, Value
from onnx_parity.exporter.torch_inside.dispatcher import is_view

__all__ = ["every_node", "is_read", "read_after", "views_of"]


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


def views_of(value: Value, nodes: Sequence[Node]) -> set[Value]:
    """All values that are the same memory as a value: what it is a view of, and the views of that."""
    while value.node is not None and is_view(value.node.op) and (source := next(value.node.inputs(), None)) is not None:
        value = source
    views = {value}
    for node in every_node(nodes):
        if is_view(node.op) and next(node.inputs(), None) in views:
            views.update(output for output in node.outputs if output is not None)
    return views


def is_read(value: Value, since: Node | None, nodes: Sequence[Node], outputs: Iterable[Value]) -> bool:
    """Whether the memory of a value is read after a node, or at all if that is not known."""
    read = read_after(since, nodes, outputs) if since is not None else None
    if read is None:
        read = {*outputs, *(value for node in nodes for value in node.inputs())}
    return not read.isdisjoint(views_of(value, nodes))


def _read_inside(around: Node, node: Node) -> set[Value] | None:
    for block in around.blocks():
        read = read_after(node, block.nodes, block.outputs)
        if read is not None:
            return read if around.op is IF else read.union(block.captured)
    return None
