"""Whether a mask leaves out all tokens after each: then attention over it is causal, whatever else it leaves out.

What is compared are positions that are counted along an axis. How far they are moved is computed as an expression over
the names of sizes, since two axes of one name have equal sizes.
"""

from __future__ import annotations

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.expressions.expression import Expression, Number, Symbol
from onnx_parity.exporter.expressions.parsing import NotACondition, parse_number
from onnx_parity.exporter.rewrites.engine.matching import axes_of, ints_of, known_tensor, producer_of, sizes_of
from onnx_parity.exporter.rewrites.for_onnxruntime.cached_attention import Sizes

__all__ = ["is_causal", "size_expression"]

#: What does not change which positions are compared.
_SAME = ("Cast", "Identity")


class _Positions(msgspec.Struct, frozen=True):
    """The numbers from `start` on, along one axis; axes are counted from the last one, which is -1."""

    start: Expression
    axis: int


def size_expression(size: int | str) -> Expression:
    """The size of an axis, whose name may be an expression over other names."""
    if isinstance(size, int):
        return Number(size)
    try:
        return parse_number(size)
    except NotACondition:
        return Symbol(size)


def is_causal(mask: ir.Value | None, sizes: Sizes) -> bool:
    """Whether a mask (..., new tokens, all tokens) is False for each token after a new one."""
    node = mask.producer() if mask is not None else None
    if node is None or node.domain:
        return False
    if node.op_type == "And":
        return any(is_causal(each, sizes) for each in node.inputs)
    if node.op_type == "Not":
        compared = producer_of(node.inputs[0], "Greater", "Less")
        return compared is not None and _follow(compared, compared.op_type == "Less", sizes)
    if node.op_type in ("LessOrEqual", "GreaterOrEqual"):
        return _follow(node, node.op_type == "GreaterOrEqual", sizes)
    return False


def _follow(comparison: ir.Node, is_swapped: bool, sizes: Sizes) -> bool:
    """Whether the first operand has the positions of all tokens, and the second those of the new ones."""
    operands = [*comparison.inputs][:: -1 if is_swapped else 1]
    everything, new = (_positions(each) for each in operands)
    if everything is None or new is None or (everything.axis, new.axis) != (-1, -2):
        return False
    columns, rows = (sizes_of(each) for each in operands)
    if columns is None or rows is None or (columns[-1], rows[-2]) != (sizes.total, sizes.new):  # One is broadcast.
        return False
    return new.start - everything.start == size_expression(sizes.past)


def _positions(value: ir.Value | None) -> _Positions | None:
    node = value.producer() if value is not None else None
    if node is None or node.domain:
        return None
    if node.op_type == "Range":
        start = _number(node.inputs[0])
        return _Positions(start, -1) if start is not None and ints_of(node.inputs[2]) == [1] else None
    if node.op_type in _SAME:
        return _positions(node.inputs[0])
    if node.op_type in ("Add", "Sub"):
        first, second = node.inputs
        found, by = _positions(first), _number(second)
        if found is None and node.op_type == "Add":
            found, by = _positions(second), _number(first)
        if found is None or by is None:
            return None
        return _Positions(found.start + by if node.op_type == "Add" else found.start - by, found.axis)
    return _with_axes(node) if node.op_type == "Unsqueeze" else None


def _with_axes(unsqueeze: ir.Node) -> _Positions | None:
    found, axes, before = _positions(unsqueeze.inputs[0]), axes_of(unsqueeze), sizes_of(unsqueeze.inputs[0])
    if found is None or axes is None or before is None:
        return None
    rank = len(before) + len(axes)
    new = {axis % rank for axis in axes}
    kept = [axis for axis in range(rank) if axis not in new]
    return _Positions(found.start, kept[found.axis] - rank)


def _number(value: ir.Value | None) -> Expression | None:
    """A whole number without axes, or the only element of a tensor."""
    tensor = known_tensor(value)
    if tensor is not None:
        return Number(int(tensor.numpy().reshape(-1)[0])) if tensor.size == 1 and tensor.dtype.is_integer() else None
    node = value.producer() if value is not None else None
    if node is None or node.domain:
        return None
    if node.op_type in ("Squeeze", *_SAME):
        return _number(node.inputs[0])
    if node.op_type in ("Add", "Sub"):
        one, other = (_number(each) for each in node.inputs)
        if one is None or other is None:
            return None
        return one + other if node.op_type == "Add" else one - other
    return _size(node) if node.op_type == "Shape" else None


def _size(shape: ir.Node) -> Expression | None:
    """The size that a Shape gives of a single axis."""
    sizes = sizes_of(shape.inputs[0])
    if sizes is None:
        return None
    start, end = shape.attributes.get_int("start", 0), shape.attributes.get_int("end", len(sizes))
    found = sizes[start:end]
    return size_expression(found[0]) if len(found) == 1 else None
