"""Comparison and products of sizes, and shapes of values. Nothing here needs the number of a dynamic size.

int64 arithmetic on dynamic sizes is only added if a node needs them (`Forms.ints` and `Forms.reshape` in `opsets`).
ResNet-50 with a dynamic batch has no more nodes than without.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx_parity.exporter.graph.graph import Size, broadcast_size, same_shape, same_size
from onnx_parity.exporter.lowering.values.value import Value

__all__ = [
    "broadcast",
    "may_be_empty",
    "never_exceeds",
    "never_negative",
    "product",
    "same_shape",
    "same_size",
    "shaped",
]


def broadcast(*values: Value) -> tuple[Size, ...] | None:
    """The shape that values broadcast to; None if it is not known at export."""
    result: list[Size] = []
    for value in values:
        if value.shape is None:
            return None
        missing: list[Size] = [1] * (len(value.shape) - len(result))
        result = missing + result
        for axis, size in enumerate(value.shape, len(result) - len(value.shape)):
            both = broadcast_size(result[axis], size)
            if both is None:
                return None
            result[axis] = both
    return tuple(result)


def may_be_empty(size: Size, occupied: Sequence[Size] = ()) -> bool:
    """Whether a size is 0 for some sizes within the declared ranges where others are not, as far as is known."""
    others = [each.node.expr for each in occupied if not isinstance(each, int)]
    return size == 0 if isinstance(size, int) else size.node.shape_env.least(size, others) == 0


def never_negative(number: Size) -> bool:
    """Whether a size, or an index computed from sizes, is known not to be negative."""
    return number >= 0 if isinstance(number, int) else bool(number.node.shape_env.never_negative(number))


def never_exceeds(number: Size, limit: Size) -> bool:
    """Whether a size, or an index computed from sizes, is known to be at most the limit."""
    for each in (number, limit):
        if not isinstance(each, int):
            return bool(each.node.shape_env.never_exceeds(number, limit))
    return number <= limit


def product(sizes: Sequence[Size]) -> Size:
    """The number of elements of a tensor of these sizes."""
    count: Size = 1
    for size in sizes:
        count = count * size
    return count


def shaped(value: Value, sizes: Sequence[Size] | None) -> Value:
    """The value, with its shape set to `sizes` if it was not known."""
    if value.shape is None and sizes is not None:
        value.shape = tuple(sizes)
    return value
