"""Sizes compared, multiplied and written onto values. None asks what a symbol is: that would fix it."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_parity.exporter.capture.graph.graph import Size, same_shape, same_size
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["broadcast", "never_negative", "product", "same_shape", "same_size", "shaped"]


def broadcast(*values: Value) -> tuple[Size, ...] | None:
    """The shape that values broadcast to; None where it cannot be told."""
    result: list[Size] = []
    for value in values:
        if value.shape is None:
            return None
        missing: list[Size] = [1] * (len(value.shape) - len(result))
        result = missing + result
        for axis, size in enumerate(value.shape, len(result) - len(value.shape)):
            if same_size(result[axis], 1):
                result[axis] = size
            elif not same_size(size, 1) and not same_size(result[axis], size):
                return None
    return tuple(result)


def never_negative(place: Size) -> bool:
    """Whether a place on an axis is surely counted from its front."""
    return place >= 0 if isinstance(place, int) else bool(place.node.shape_env.never_negative(place))


def product(sizes: Sequence[Size]) -> Size:
    """How many elements a tensor of these sizes has."""
    count: Size = 1
    for size in sizes:
        count = count * size
    return count


def shaped(value: Value, sizes: Sequence[Size] | None) -> Value:
    """A value whose shape is now known."""
    if value.shape is None and sizes is not None:
        value.shape = tuple(sizes)
    return value
