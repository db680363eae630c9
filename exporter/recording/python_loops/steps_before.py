"""What a path through a program computes before it goes off from another path, which has computed the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from onnx_parity.exporter.expressions.expression import Expression, Symbol
from onnx_parity.exporter.graph.correspondence import Correspondence
from onnx_parity.exporter.graph.graph import Node, Value
from onnx_parity.exporter.recording.random_numbers import draws
from onnx_parity.exporter.recording.recorder import Recorder
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

__all__ = ["draws_numbers", "replaced_by"]


def replaced_by(before: Sequence[Node], nodes: Sequence[Node], recorder: Recorder) -> dict[Value, Value] | None:
    """Have the program compute with the results of nodes that were recorded before, in the place of those of other
    nodes. Returns both, by the latter; None if these nodes do not do the same."""
    pairs = [*zip(_results_of(before), _results_of(nodes), strict=False)]
    if [node.op for node in before] != [node.op for node in nodes]:
        return None
    if not Correspondence(_symbols_alike(pairs, recorder)).same_nodes(before, nodes):
        return None
    replaced = {now: then for then, now in pairs}
    for value, fake in recorder.fakes_by_value().items():
        if value in replaced:
            recorder.adopt(fake, replaced[value])
    for name, (value, axis) in recorder.size_sources.items():
        recorder.size_sources[name] = replaced.get(value, value), axis
    scalars = recorder.reader.scalars
    scalars.update({name: replaced.get(value, value) for name, value in scalars.items()})
    return replaced


def draws_numbers(node: Node) -> bool:
    """Whether a node, or one within its blocks, draws random numbers."""
    if isinstance(node.op, OpOverload):
        return draws(node.op, node.arguments)
    return any(draws_numbers(inner) for block in node.blocks() for inner in block.nodes)


def _results_of(nodes: Iterable[Node]) -> list[Value]:
    return [value for node in nodes for value in node.outputs if value is not None]


def _symbols_alike(pairs: Sequence[tuple[Value, Value]], recorder: Recorder) -> dict[Expression, Expression]:
    """The symbols of the sizes and of the numbers of values, with those of the others, which are computed alike."""
    named = {value: Symbol(name) for name, value in recorder.reader.scalars.items()}
    found: dict[Expression, Expression] = {}
    for one, other in pairs:
        if one in named and other in named:
            found[named[one]] = named[other]
        for size, another in zip(one.shape, other.shape, strict=False):
            if isinstance(size, torch.SymInt) and isinstance(another, torch.SymInt) and size.node.expr.is_Symbol:
                found[size.node.expr] = another.node.expr
    return found
