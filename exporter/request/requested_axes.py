"""The dynamic axes of a program, from whichever of `dynamic_axes` and `dynamic_shapes` was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.request.dynamic_axes import Axes, DynamicAxes, axes_from_dynamic_axes
from onnx_parity.exporter.request.dynamic_shapes import DynamicShapes, axes_from_dynamic_shapes
from onnx_parity.exporter.request.marked_inputs import Held, ListOf, example_of

__all__ = ["axes_of_program"]


def axes_of_program(
    dynamic_axes: DynamicAxes | None,
    dynamic_shapes: DynamicShapes | None,
    arguments: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor | Held],
    output_names: Sequence[str],
) -> Axes:
    """Read whichever was given. `arguments` are by parameter, and `inputs` are the program's inputs by name."""
    if dynamic_axes is not None and not isinstance(dynamic_axes, Mapping):
        raise ArgumentError(
            f"dynamic_axes is {dynamic_axes!r}: give a dict of axes by the names of inputs and outputs, "
            "{'x': {0: 'batch'}}"
        )
    if dynamic_axes and dynamic_shapes is not None:
        raise ArgumentError("dynamic_axes and dynamic_shapes are two forms of the same request: give one of them")
    axes = (
        axes_from_dynamic_shapes(dynamic_shapes, arguments, inputs)
        if dynamic_shapes is not None
        else axes_from_dynamic_axes(dynamic_axes or {}, inputs, output_names)
    )
    _refuse_unequal(axes, inputs)
    return axes


def _refuse_unequal(axes: Axes, inputs: Mapping[str, torch.Tensor | Held]) -> None:
    names = list(inputs)
    seen: dict[str, tuple[str, int]] = {}
    for position, named in axes.inputs.items():
        name = names[position]
        given = inputs[name]
        if isinstance(given, Held) and isinstance(given.mark, ListOf):
            continue
        for axis, axis_name in named.items():
            size = example_of(given).shape[axis]
            first, first_size = seen.setdefault(axis_name, (name, size))
            if size != first_size:
                raise ArgumentError(
                    f"the axis {axis_name!r} has size {first_size} in {first!r} and {size} in {name!r}: axes with the "
                    "same name have the same size; give them two names"
                )
