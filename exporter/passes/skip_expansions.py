"""Removes an Expand whose result only operators read that broadcast it themselves to the same sizes.

An example is the bias of positions in MPNet, which the program expands to the batch and then adds to the scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

import onnx_ir as ir

from onnx_parity.exporter.passes.matching import ELEMENTWISE, Sizes, sizes_of

__all__ = ["skip_expansions"]


def skip_expansions(model: ir.Model) -> None:
    """Let what reads an Expand read its input, if each result that is used otherwise keeps its shape."""
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.op_type != "Expand" or node.domain:
            continue
        source, expanded = node.inputs[0], node.outputs[0]
        sizes = sizes_of(source)
        if source is None or sizes is None or (smaller := _smaller_results(expanded, sizes)) is None:
            continue
        # It keeps its own sizes: nothing will read it, but an equal Expand that stays may be merged with it later.
        del smaller[expanded]
        for value, shape in smaller.items():
            value.shape = ir.Shape(shape)
        expanded.replace_all_uses_with(source)


def _smaller_results(expanded: ir.Value, sizes: Sizes) -> dict[ir.Value, Sizes] | None:
    """The values that become smaller when one does, with their sizes; None if that would change another result."""
    smaller = {expanded: sizes}
    reached = [expanded]
    while reached:
        value = reached.pop()
        if value.is_graph_output():
            return None
        for node, _ in value.uses():
            if node.op_type not in ELEMENTWISE or node.domain:
                return None
            result = node.outputs[0]
            found = _broadcast(
                smaller[each] if each in smaller else sizes_of(each) for each in node.inputs if each is not None
            )
            if found is None or (old := sizes_of(result)) is None:
                return None
            if found != smaller.get(result, old):
                smaller[result] = found
                reached.append(result)
    return smaller


def _broadcast(all_sizes: Iterable[Sizes | None]) -> Sizes | None:
    """The sizes to which tensors of these sizes are broadcast; None if they do not tell."""
    shapes: list[Sequence[int | str]] = []
    for sizes in all_sizes:
        if sizes is None:
            return None
        shapes.append(sizes[::-1])
    result: list[int | str] = []
    for along in zip_longest(*shapes, fillvalue=1):
        different = set(along) - {1}
        if len(different) > 1:
            return None
        result.append(different.pop() if different else 1)
    return tuple(result[::-1])
