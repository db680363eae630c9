"""Reads `dynamic_shapes`, which describes dynamic axes with the dimensions of `torch.export`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from msgspec.structs import replace
from torch.export.dynamic_shapes import AdditionalInputs, Dim, ShapesCollection

from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.request.call_arguments import parameter_names
from onnx_parity.exporter.request.checks import checked_unicode
from onnx_parity.exporter.request.dynamic_axes import Axes, Named, checked_axis
from onnx_parity.exporter.request.hints import kind_of_hint, limits_of
from onnx_parity.exporter.request.marked_inputs import Held
from onnx_parity.exporter.request.paired_shapes import paired

__all__ = ["DynamicShapes", "axes_from_dynamic_shapes", "shapes_by_argument", "with_shapes_of_rest", "written_out"]

DynamicShapes = Mapping[str, Any] | Sequence[Any] | ShapesCollection | AdditionalInputs
#: What torch makes `dynamic_shapes` with: of the tensors that are to have them, or of further examples.
_MAKERS = (ShapesCollection, AdditionalInputs)


def written_out(given: Any, model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> DynamicShapes:
    """`dynamic_shapes` by the names of the arguments, if it was given as an object of torch's that makes them."""
    if not isinstance(given, _MAKERS):
        shapes: DynamicShapes = given
        return shapes
    try:
        made: DynamicShapes = given.dynamic_shapes(model, tuple(args), dict(kwargs))  # type: ignore[no-untyped-call]
    except ValueError as error:
        raise ArgumentError(f"dynamic_shapes does not fit the arguments: {error}") from error
    return made


def with_shapes_of_rest(spec: DynamicShapes, signature: inspect.Signature | None, args: Sequence[Any]) -> DynamicShapes:
    """`dynamic_shapes` with one entry for each of the program's `*args`, of which torch.export takes a tuple."""
    parameters = signature.parameters.values() if signature is not None else ()
    rest = next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), None)
    first = len(parameter_names(signature))
    held = args[first:]
    if rest is None or not held or not isinstance(spec, (Mapping, list, tuple)):
        return spec
    if not isinstance(spec, Mapping):
        is_tuple = len(spec) > first and isinstance(spec[first], (list, tuple)) and len(spec[first]) == len(held)
        # One entry for each axis of the only tensor is a list of dimensions.
        is_one_entry = is_tuple and any(isinstance(each, (Mapping, list, tuple)) for each in spec[first])
        return (*spec[:first], *spec[first], *spec[first + 1 :]) if is_one_entry else spec
    own = {name: each for name, each in spec.items() if name != rest}
    entries = spec.get(rest)
    if entries is None:
        return own
    if not isinstance(entries, (list, tuple)) or len(entries) != len(held):
        raise ArgumentError(
            f"dynamic_shapes[{rest!r}] is {entries!r}: give a tuple with one entry for each of the {len(held)} "
            f"arguments in *{rest}"
        )
    return own | {f"input_{number}": each for number, each in enumerate(entries, first)}


def shapes_by_argument(spec: DynamicShapes, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """`dynamic_shapes` by the names of the arguments. Users may also give it by their positions."""
    if not isinstance(spec, (Mapping, list, tuple)):
        raise ArgumentError(
            f"dynamic_shapes is {spec!r}: give a dict by the names of arguments, {{'x': {{0: Dim('batch')}}}}, or a "
            "tuple with one entry for each"
        )
    if not isinstance(spec, Mapping):
        # Arguments without tensors, such as a number given by keyword, may be left out.
        holding = [name for name, argument in arguments.items() if any(True for _ in paired(name, argument, None))]
        entitled = list(arguments) if len(spec) == len(arguments) else holding
        if len(spec) != len(entitled):
            raise ArgumentError(
                f"dynamic_shapes has {len(spec)} entries for {len(holding)} arguments with tensors "
                f"({', '.join(holding)}): give one for each, None where nothing is dynamic"
            )
        spec = dict(zip(entitled, spec, strict=True))
    unknown = [name for name in spec if name not in arguments]
    if unknown:
        raise ArgumentError(
            f"dynamic_shapes names {unknown[0]!r}, which is not an argument of the program: give one of "
            f"{', '.join(arguments)}"
        )
    return spec


def axes_from_dynamic_shapes(
    given: DynamicShapes, arguments: Mapping[str, Any], inputs: Mapping[str, torch.Tensor | Held]
) -> Axes:
    """Read a structure like that of the arguments, with a dict or list of dimensions in place of each tensor."""
    spec = shapes_by_argument(given, arguments)
    axes, automatic = Axes(), set[str]()
    bases = _bases_of_derived(spec, arguments)
    names = list(inputs)
    position = 0
    for name, argument in arguments.items():
        for tensor, wanted in paired(f"dynamic_shapes[{name!r}]", argument, spec.get(name)):
            named = _dimensions(f"dynamic_shapes[{name!r}]", names[position], wanted, tensor, automatic, axes.ranges)
            if named:
                axes.inputs[position] = named
            position += 1
    without_axis = bases.keys() - {name for named in axes.inputs.values() for name in named.values()}
    axes.ranges.update({name: limits for name in without_axis if (limits := bases[name]) is not None})
    return replace(axes, automatic=frozenset(automatic), must_vary=True, bases=frozenset(without_axis))


def _bases_of_derived(spec: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, tuple[Any, Any] | None]:
    """The names of dimensions that no axis has itself, but one that is derived from it, such as `2 * Dim("n")`, with
    their limits. Refuses an example whose sizes contradict a derived dimension."""
    bases: dict[str, tuple[Any, Any] | None] = {}
    sizes: dict[str, int] = {}
    derived: list[tuple[str, Any, int]] = []
    for name, argument in arguments.items():
        for tensor, wanted in paired(f"dynamic_shapes[{name!r}]", argument, spec.get(name)):
            # Other types than dicts and lists are refused later, in `_dimensions`.
            listed = wanted if isinstance(wanted, list | tuple) else ()
            by_axis = wanted.items() if isinstance(wanted, Mapping) else enumerate(listed)
            for axis, dimension in by_axis:
                if isinstance(dimension, Dim) and axis in range(-tensor.ndim, tensor.ndim):
                    if hasattr(dimension, "root"):
                        derived.append((name, dimension, tensor.shape[axis]))
                    else:
                        sizes[dimension.__name__] = tensor.shape[axis]
    for name, dimension, size in derived:
        root = sizes.get(dimension.root.__name__)
        if root is None:
            # No axis has the size n itself, so n is computed from the first dimension that is derived from it.
            root = sizes[dimension.root.__name__] = _root_of(dimension, size)
            bases[dimension.root.__name__] = limits_of(dimension.root)
            if dimension.fn(root) != size:
                raise ArgumentError(
                    f"dynamic_shapes[{name!r}] is {dimension.__name__}, but the example's size is {size}, which no "
                    f"integer {dimension.root.__name__} gives: give an example that fits"
                )
        if dimension.fn(root) != size:
            raise ArgumentError(
                f"dynamic_shapes[{name!r}] asks for {dimension.__name__}, which is {dimension.fn(root)} for "
                f"{dimension.root.__name__} = {root}, but the example's size is {size}: give an example that fits"
            )
    return bases


def _root_of(dimension: Any, size: int) -> int:
    """The n for which a dimension such as `2 * n + 1` is nearest to a size. torch's derived dimensions are linear."""
    offset = dimension.fn(0)
    return int((size - offset) // (dimension.fn(1) - offset))


def _dimensions(
    what: str,
    name: str,
    wanted: Any,
    tensor: torch.Tensor,
    automatic: set[str],
    ranges: dict[str, tuple[Any, Any]],
) -> Named:
    if wanted is None:
        return {}
    if isinstance(wanted, Mapping):
        by_axis = dict(wanted)
    elif isinstance(wanted, (list, tuple)):
        if len(wanted) != tensor.ndim:
            raise ArgumentError(
                f"{what} has {len(wanted)} entries, but {name!r} has {tensor.ndim} axes: give one entry for each"
            )
        by_axis = dict(enumerate(wanted))
    else:
        raise ArgumentError(f"{what} is {wanted!r}: give a dict, {{0: Dim('batch')}}, or one entry for each axis")
    named: Named = {}
    for axis, dimension in by_axis.items():
        positive = checked_axis(what, name, axis, tensor.ndim)
        axis_name = _dimension_name(what, f"{name}_dim_{positive}", dimension, tensor.shape[positive])
        if axis_name is not None:
            named[positive] = axis_name
            if kind_of_hint(dimension) == "AUTO":
                automatic.add(axis_name)
            limits = limits_of(dimension)
            if limits is not None:
                ranges[axis_name] = limits
    return named


def _dimension_name(what: str, default: str, dimension: Any, size: int) -> str | None:
    """The name that a dimension gives to its axis; None for a static axis."""
    kind = kind_of_hint(dimension)
    if dimension is None or kind == "STATIC" or (isinstance(dimension, int) and dimension == size):
        return None
    if isinstance(dimension, str):
        return checked_unicode("dynamic_shapes", dimension)
    if isinstance(dimension, Dim) or kind is not None:
        name = default if kind is not None else str(dimension.__name__)
        low, high = limits_of(dimension) or (0, math.inf)
        if not low <= size <= high:
            bounds = f"from {low} on" if str(high) in ("int_oo", "inf") else f"from {low} to {high}"
            raise ArgumentError(
                f"{what} asks for {name} {bounds}, but the example's size is {size}: give other bounds or another "
                "example"
            )
        return name
    raise ArgumentError(
        f"{what} contains {dimension!r}: give torch.export.Dim('name'), Dim.DYNAMIC, Dim.AUTO, a name, or None"
    )
