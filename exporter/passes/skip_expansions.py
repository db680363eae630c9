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
from onnx_parity.exporter.passes.all_nodes import all_nodes
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
    for node in all_nodes(model.graph):
        if node.op_type not in ("ConstantOfShape", "Expand") or node.domain:
            continue
        expanded, fills = node.outputs[0], node.op_type == "ConstantOfShape"
        sizes = () if fills else sizes_of(node.inputs[0])
        if sizes is None or (smaller := _smaller_results(expanded, sizes, broadcasting)) is None:
            continue
        source = _number(node, constants) if fills else node.inputs[0]
        if source is None:
            continue
        # It keeps its own sizes: nothing will read it, but an equal Expand that stays may be merged with it later.
        del smaller[expanded]
        for value, shape in smaller.items():
            value.shape = ir.Shape(shape)
        expanded.replace_all_uses_with(source)


def _number(fill: ir.Node, constants: NewConstants) -> ir.Value | None:
    """The number of a ConstantOfShape, but none of float64: onnxruntime makes a product with a number a part of the
    product of matrices beside it, and rounds the number to float32."""
    value = fill.attributes.get("value")
    tensor = value.as_tensor() if value is not None else None
    if tensor is None or tensor.dtype not in TO_TORCH or tensor.dtype is ir.DataType.DOUBLE:
        return None
    return constants.number(tensor.numpy().item(), tensor.dtype, fill)


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
