"""Values that are computed on one path of a program, and used where that path need not have run."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph.graph import Graph, Node, Value

__all__ = ["refuse_escaped"]


def refuse_escaped(graph: Graph) -> None:
    """Refuse a graph that uses a value of a branch or a loop outside of it."""
    known = _refuse_in(graph, graph.live_nodes(), set())
    for value in graph.outputs:
        _refuse(value, known, None)


def _refuse_in(graph: Graph, nodes: Sequence[Node], known: set[int]) -> set[int]:
    known = {*known}
    for node in nodes:
        blocks = [*node.blocks()]
        for value in node.inputs() if not blocks else ():
            _refuse(value, known, node)
        for block in blocks:
            within = _refuse_in(graph, graph.live_in(block.nodes, block.outputs), known)
            for value in block.outputs:
                _refuse(value, within, node)
        known.update(id(output) for output in node.outputs if output is not None)
    return known


def _refuse(value: Value, known: set[int], user: Node | None) -> None:
    if value.node is not None and id(value) not in known:
        where = "" if user is None else user.origin.placed
        raise CaptureError(
            f"a tensor that is computed in a branch or loop is used after it{where}, but the branch or loop does not "
            "return it: return it from its function"
        )
