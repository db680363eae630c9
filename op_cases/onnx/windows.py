"""What convolutions and pooling share: the padding on each side of each axis that a window moves along."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["padding_of", "size_of_window"]


def size_of_window(size: int, dilation: int) -> int:
    return dilation * (size - 1) + 1


def padding_of(
    shape: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int] | None,
    auto_pad: str,
) -> list[tuple[int, int]]:
    """`SAME_UPPER` and `SAME_LOWER` have as many windows as there are strides, and an odd element at that end."""
    axes = len(shape)
    if auto_pad == "VALID":
        return [(0, 0)] * axes
    if auto_pad == "NOTSET":
        given = list(pads or [0] * (2 * axes))
        return list(zip(given[:axes], given[axes:], strict=True))
    found = []
    for size, width, stride, dilation in zip(shape, kernel, strides, dilations, strict=True):
        lacking = max((-(-size // stride) - 1) * stride + size_of_window(width, dilation) - size, 0)
        small, large = lacking // 2, lacking - lacking // 2
        found.append((small, large) if auto_pad == "SAME_UPPER" else (large, small))
    return found
