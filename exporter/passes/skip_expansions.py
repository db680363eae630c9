"""Removes an Expand whose result only operators read that broadcast it themselves to the same sizes, and a
ConstantOfShape, which expands one number.

Examples are the bias of positions in MPNet, which the program expands to the batch and then adds to the scores, and
T5's bound of its buckets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import zip_longest

import onnx_ir as ir

from onnx_parity.exporter.dtypes import TO_TORCH
from onnx_parity.exporter.passes.matching import ELEMENTWISE, Sizes, sizes_of
from onnx_parity.exporter.passes.new_constants import NewConstants

__all__ = ["skip_expansions"]

#: Further operators that broadcast their inputs, and since which opset.
_BROADCASTING_LATER = frozenset({"Max", "Min"})
_BROADCASTING_LATER_SINCE = 8


def skip_expansions(model: ir.Model, opset: int) -> None:
    """Let what reads an Expand read its input, if each result that is used otherwise keeps its shape."""
    broadcasting = ELEMENTWISE | _BROADCASTING_LATER if opset >= _BROADCASTING_LATER_SINCE else ELEMENTWISE
    constants = NewConstants(model.graph)
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        source, expanded = _expanded_by(node, constants), node.outputs[0]
        sizes = sizes_of(source)
        if source is None or sizes is None or (smaller := _smaller_results(expanded, sizes, broadcasting)) is None:
            continue
        # It keeps its own sizes: nothing will read it, but an equal Expand that stays may be merged with it later.
        del smaller[expanded]
        for value, shape in smaller.items():
            value.shape = ir.Shape(shape)
        expanded.replace_all_uses_with(source)


def _expanded_by(node: ir.Node, constants: NewConstants) -> ir.Value | None:
    """What a node only expands: its input, or a number."""
    if node.op_type == "ConstantOfShape" and not node.domain:
        fill = node.attributes.get("value")
        if fill is None or (tensor := fill.as_tensor()).dtype not in TO_TORCH:
            return None
        return constants.number(tensor.numpy().item(), tensor.dtype, node)
    return node.inputs[0] if node.op_type == "Expand" and not node.domain else None


def _smaller_results(expanded: ir.Value, sizes: Sizes, broadcasting: Collection[str]) -> dict[ir.Value, Sizes] | None:
    """The values that become smaller when one does, with their sizes; None if that would change another result."""
    smaller = {expanded: sizes}
    reached = [expanded]
    while reached:
        value = reached.pop()
        if value.is_graph_output():
            return None
        for node, _ in value.uses():
            if node.op_type not in broadcasting or node.domain:
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
