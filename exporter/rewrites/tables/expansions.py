"""Expansions that the operators after them do themselves, because they broadcast their inputs.

    operator(Expand(x, sizes), y)                 ->  operator(x, y)
    operator(ConstantOfShape(sizes, value=c), y)  ->  operator(c, y)

Examples are the bias of positions in MPNet, which the program expands to the batch and then adds to the scores, and
T5's bound of its buckets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import zip_longest

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.dtypes import TO_TORCH
from onnx_parity.exporter.rewrites.engine.all_nodes import onnx_operator
from onnx_parity.exporter.rewrites.engine.matching import ELEMENTWISE, Sizes, sizes_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Rewrite, Walk

__all__ = ["EXPANSIONS"]

#: Further operators that broadcast their inputs, and since which opset.
_BROADCASTING_LATER = frozenset({"Max", "Min"})
_BROADCASTING_LATER_SINCE = 8


class _Found(msgspec.Struct, frozen=True):
    #: What is read rather than the expanded tensor: a value, or the number that fills it.
    source: ir.Value | ir.TensorProtocol
    #: The values that become smaller, with their new sizes.
    smaller: dict[ir.Value, Sizes]


def _find_expansion(expand: ir.Node, walk: Walk) -> _Found | NoMatch:
    source = expand.inputs[0]
    return _find_smaller_results(expand, source, sizes_of(source), walk)


def _find_filling(fill: ir.Node, walk: Walk) -> _Found | NoMatch:
    value = fill.attributes.get("value")
    tensor = value.as_tensor() if value is not None else None
    # onnxruntime makes a product with a number of float64 a part of the product of matrices beside it, and rounds the
    # number to float32.
    if tensor is not None and (tensor.dtype not in TO_TORCH or tensor.dtype is ir.DataType.DOUBLE):
        return NoMatch("onnxruntime would round the number to float32")
    return _find_smaller_results(fill, tensor, (), walk)


def _find_smaller_results(
    node: ir.Node, source: ir.Value | ir.TensorProtocol | None, sizes: Sizes | None, walk: Walk
) -> _Found | NoMatch:
    if source is None or sizes is None:
        return NoMatch("the sizes before it are not known")
    broadcasting = ELEMENTWISE | _BROADCASTING_LATER if walk.opset >= _BROADCASTING_LATER_SINCE else ELEMENTWISE
    smaller = _smaller_results(node.outputs[0], sizes, broadcasting)
    return smaller if isinstance(smaller, NoMatch) else _Found(source, smaller)


def _smaller_results(
    expanded: ir.Value, sizes: Sizes, broadcasting: Collection[str]
) -> dict[ir.Value, Sizes] | NoMatch:
    """The values that become smaller when one does, with their sizes, unless that would change another result."""
    smaller = {expanded: sizes}
    reached = [expanded]
    while reached:
        value = reached.pop()
        if value.is_graph_output():
            return NoMatch("an output would become smaller")
        for node, _ in value.uses():
            if onnx_operator(node) not in broadcasting:
                return NoMatch("an operator that does not broadcast would read a smaller tensor")
            result = node.outputs[0]
            operands = [each for each in node.inputs if each is not None]
            found = _broadcast(smaller[each] if each in smaller else sizes_of(each) for each in operands)
            # Sizes of two names may be equal, or one of them 1: then it is the expanded tensor that has the other.
            before = _broadcast(map(sizes_of, operands))
            if found is None or before is None or (old := sizes_of(result)) is None:
                return NoMatch("the sizes after it are not known")
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
        if known := {size for size in different if isinstance(size, int)}:
            different &= known  # What is broadcast with a known size has that size, or 1.
        if len(different) > 1:
            return None
        result.append(different.pop() if different else 1)
    return tuple(result[::-1])


def _read_smaller(node: ir.Node, found: _Found, walk: Walk) -> ir.Value:
    for value, sizes in found.smaller.items():
        value.shape = ir.Shape(sizes)
    if isinstance(found.source, ir.Value):
        return found.source
    return walk.constants.number(found.source.numpy().item(), found.source.dtype, node)


EXPANSIONS = (
    Rewrite(
        name="expansion before operators that broadcast", at=("Expand",), find=_find_expansion, write=_read_smaller
    ),
    Rewrite(
        name="filled tensor before operators that broadcast",
        at=("ConstantOfShape",),
        find=_find_filling,
        write=_read_smaller,
    ),
)
