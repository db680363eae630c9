"""Convolutions of any number of spatial axes, and their transposes."""

from __future__ import annotations

from typing import Any

from exporter.lowering.builder import Graph
from exporter.lowering.registry import lowering
from exporter.lowering.values import Value


@lowering("aten::convolution")
def convolution(
    g: Graph, input: Value, weight: Value, bias: Value | None, stride: list[int], padding: list[int],
    dilation: list[int], transposed: bool, output_padding: list[int], groups: int,
) -> Value:  # fmt: skip
    axes = weight.rank - 2
    stride, padding, dilation = spread(stride, axes), spread(padding, axes), spread(dilation, axes)
    operands = [input, weight, *([] if bias is None else [bias])]
    shared: dict[str, Any] = {
        "kernel_shape_i": weight.sizes[2:],
        "strides_i": stride,
        "pads_i": [*padding, *padding],
        "dilations_i": dilation,
        "group_i": groups,
    }
    if not transposed:
        return g.op("Conv", *operands, **shared)
    extra = spread(output_padding, axes)
    return g.op("ConvTranspose", *operands, **shared, output_padding_i=extra if any(extra) else None)


def spread(numbers: list[int] | int, axes: int) -> list[int]:
    """One number for all axes, or one for each."""
    numbers = numbers if isinstance(numbers, list) else [numbers]
    return numbers * axes if len(numbers) == 1 else numbers
