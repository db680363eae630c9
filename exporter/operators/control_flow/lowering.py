"""Branches, loops and scans: nodes with blocks become operators with subgraphs."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_parity.exporter.graph.graph import Block
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("prim::If")
def if_(g: Graph, condition: Value, then: Block, orelse: Block) -> list[Value | None]:
    used = [number for number in range(len(g.node.outputs)) if g.is_used(number)]
    g.check_returned([then.outputs[number] for number in used])
    g.check_branches([(then.outputs[number].shape, orelse.outputs[number].shape) for number in used])
    graphs = []
    for block in (then, orelse):
        with g.body() as body:
            body.returns(g.lowered(block, [], [block.outputs[number] for number in used]))
        graphs.append(body.graph)
    dtypes = [then.outputs[number].dtype for number in used]
    made = g.emit("If", [condition], dtypes, then_branch_g=graphs[0], else_branch_g=graphs[1])
    results: list[Value | None] = [None] * len(g.node.outputs)
    for number, result in zip(used, made, strict=True):
        results[number] = result
    return results


@lowering("prim::Loop")
def loop(g: Graph, trips: Value | None, condition: Value | None, initial: Sequence[Value], block: Block) -> list[Value]:
    return g.loop(trips, condition, initial, block)


@lowering("higher_order::scan")
def scan(g: Graph, initial: Sequence[Value], over: Sequence[Value], block: Block) -> list[Value]:
    return g.scan(initial, over, block)
