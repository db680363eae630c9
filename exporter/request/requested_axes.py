"""The dynamic axes of a program, from whichever of `dynamic_axes` and `dynamic_shapes` was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from msgspec.structs import replace

from onnx_parity.exporter.errors import ArgumentError, OnnxExporterWarning
from onnx_parity.exporter.request.dynamic_axes import Axes, DynamicAxes, axes_from_dynamic_axes
from onnx_parity.exporter.request.dynamic_shapes import DynamicShapes, axes_from_dynamic_shapes
from onnx_parity.exporter.request.marked_inputs import Held, ListOf, example_of
from onnx_parity.exporter.request.size_expressions import evaluated, is_expression
from onnx_parity.exporter.torch_inside.frames import warn_at_users_line

__all__ = ["axes_of_program"]


def axes_of_program(
    dynamic_axes: DynamicAxes | None,
    dynamic_shapes: DynamicShapes | None,
    arguments: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor | Held],
    output_names: Sequence[str],
    *,
    refuse_unknown: bool = False,
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
        else axes_from_dynamic_axes(dynamic_axes or {}, inputs, output_names, refuse_unknown=refuse_unknown)
    )
    axes = _told_apart(axes, inputs)
    _refuse_unequal(axes, inputs)
    return axes


def _told_apart(axes: Axes, inputs: Mapping[str, torch.Tensor | Held]) -> Axes:
    """The axes with names of their own where `dynamic_axes` gives one name to different sizes. There, as in torch.onnx,
    a name is a label."""
    if axes.must_vary:
        return axes
    names = list(inputs)
    sizes: dict[str, int] = {}
    apart: dict[tuple[str, int], str] = {}
    told: dict[int, dict[int, str]] = {}
    for position, named in axes.inputs.items():
        told[position] = {}
        for axis, name in named.items():
            given = inputs[names[position]]
            size = 0 if _is_list(given) else example_of(given).shape[axis]
            first = size if _is_list(given) else sizes.setdefault(name, size)
            new = name if size == first else apart.setdefault((name, size), f"{names[position]}_dim_{axis}")
            told[position][axis] = new
    for (name, size), new in apart.items():
        warn_at_users_line(
            f"dynamic_axes gives the name {name!r} to axes of size {sizes[name]} and of size {size} in the example: "
            f"they are two axes in the model, {name!r} and {new!r}. Give them two names",
            OnnxExporterWarning,
        )
    return replace(axes, inputs=told) if apart else axes


def _is_list(given: torch.Tensor | Held) -> bool:
    return isinstance(given, Held) and isinstance(given.mark, ListOf)


def _refuse_unequal(axes: Axes, inputs: Mapping[str, torch.Tensor | Held]) -> None:
    names = list(inputs)
    seen: dict[str, tuple[str, int]] = {}
    for position, named in axes.inputs.items():
        name = names[position]
        given = inputs[name]
        if _is_list(given):
            continue
        for axis, axis_name in named.items():
            size = example_of(given).shape[axis]
            first, first_size = seen.setdefault(axis_name, (name, size))
            if size != first_size:
                raise ArgumentError(
                    f"the axis {axis_name!r} has size {first_size} in {first!r} and {size} in {name!r}: axes with the "
                    "same name have the same size; give them two names"
                )
    sizes = {axis_name: size for axis_name, (_, size) in seen.items()}
    for axis_name, (name, size) in seen.items():
        if is_expression(axis_name, sizes) and evaluated(axis_name, sizes) != size:
            raise ArgumentError(
                f"the axis {axis_name!r} of {name!r} has size {size} in the example, but the axes that it names give "
                f"{evaluated(axis_name, sizes)}: give an example that fits, or another name"
            )
