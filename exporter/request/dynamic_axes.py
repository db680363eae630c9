"""Dynamic axes as users write them: `dynamic_axes` in its three spellings, `dynamic_shapes` as in `torch.export`."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.export.dynamic_shapes import Dim

from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.request.marked_inputs import Held, ListOf, Mark, without_marks

__all__ = [
    "Axes",
    "DynamicAxes",
    "DynamicShapes",
    "Named",
    "axes_of_program",
    "shapes_by_argument",
    "with_outputs_placed",
]

DynamicAxes = Mapping[str, Mapping[int, str] | Sequence[int] | Mark]
DynamicShapes = Mapping[str, Any] | Sequence[Any]
#: Axis to name.
Named = dict[int, str]


@dataclass(frozen=True, slots=True)
class Axes:
    """Dynamic axes by position: of each input and each output that has any."""

    inputs: dict[int, Named] = field(default_factory=dict)
    outputs: dict[int, Named] = field(default_factory=dict)
    #: Names of axes that may turn out to be fixed (`Dim.AUTO`): then they are static, without an error.
    automatic: frozenset[str] = frozenset()
    #: By name, the least and the greatest size that an axis was promised to have. (No greatest: torch's `int_oo`.)
    ranges: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def without(self, names: Container[str]) -> Axes:
        """These axes, those of the names being static."""
        inputs = {
            position: {axis: name for axis, name in named.items() if name not in names}
            for position, named in self.inputs.items()
        }
        return replace(self, inputs=inputs)

    def renamed(self, requested: Axes, inputs: Sequence[str]) -> Axes:
        """These axes, called as requested. They are those of an exported program, which cannot get more."""
        names: dict[str, str] = {}
        for position, named in requested.inputs.items():
            for axis, name in named.items():
                own = self.inputs.get(position, {}).get(axis)
                if own is None:
                    raise ArgumentError(
                        f"axis {axis} of {inputs[position]!r} does not vary in the exported program: call "
                        "torch.export.export with dynamic_shapes that say so"
                    )
                names[own] = name
        renamed = {
            position: {axis: names.get(name, name) for axis, name in named.items()}
            for position, named in self.inputs.items()
        }
        ranges = {names.get(name, name): bounds for name, bounds in self.ranges.items()}
        return Axes(renamed, requested.outputs, self.automatic, ranges)


def axes_of_program(
    dynamic_axes: DynamicAxes | None,
    dynamic_shapes: DynamicShapes | None,
    arguments: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor | Held],
    output_names: Sequence[str],
) -> Axes:
    """Read whichever of the two was given. `arguments` are the program's by parameter, `inputs` its inputs by name."""
    if dynamic_axes is not None and not isinstance(dynamic_axes, Mapping):
        raise ArgumentError(
            f"dynamic_axes is {dynamic_axes!r}: give a dict of axes by the names of inputs and outputs, "
            "{'x': {0: 'batch'}}"
        )
    if dynamic_axes and dynamic_shapes is not None:
        raise ArgumentError("dynamic_axes and dynamic_shapes say the same thing in two ways: give one of them")
    axes = (
        _from_dynamic_shapes(dynamic_shapes, arguments, inputs)
        if dynamic_shapes is not None
        else _from_dynamic_axes(dynamic_axes or {}, inputs, output_names)
    )
    _refuse_unequal(axes, inputs)
    return axes


def _example(given: torch.Tensor | Held) -> torch.Tensor:
    return given.item if isinstance(given, Held) else given


def _refuse_unequal(axes: Axes, inputs: Mapping[str, torch.Tensor | Held]) -> None:
    names = list(inputs)
    seen: dict[str, tuple[str, int]] = {}
    for position, named in axes.inputs.items():
        name = names[position]
        given = inputs[name]
        if isinstance(given, Held) and isinstance(given.mark, ListOf):
            continue
        for axis, axis_name in named.items():
            size = _example(given).shape[axis]
            first, first_size = seen.setdefault(axis_name, (name, size))
            if size != first_size:
                raise ArgumentError(
                    f"the axis name {axis_name!r} stands for size {first_size} in {first!r} and {size} in {name!r}: "
                    "axes of one name have one size; give them two names"
                )


# --- dynamic_axes -----------------------------------------------------------------------------------------------------


def _from_dynamic_axes(
    spec: DynamicAxes, inputs: Mapping[str, torch.Tensor | Held], output_names: Sequence[str]
) -> Axes:
    """`{"x": [0, 2]}`, `{"x": {0: "batch"}}`, and both mixed."""
    axes = Axes()
    names = list(inputs)
    for name, given in inputs.items():
        if isinstance(given, Held) and given.mark.axes:
            axes.inputs[names.index(name)] = _named(name, given.mark.axes, given.item.ndim)
    for name, wanted in without_marks(spec).items():
        if name not in inputs and name not in output_names:
            raise ArgumentError(
                f"dynamic_axes names {name!r}, which is neither an input ({', '.join(names) or 'none'}) "
                f"nor an output ({', '.join(output_names)}): see input_names and output_names"
            )
        if name in inputs:
            axes.inputs[names.index(name)] = _named(name, wanted, _example(inputs[name]).ndim)
        if name in output_names:
            # The rank of an output is known once the program has run.
            axes.outputs[list(output_names).index(name)] = _named(name, wanted, None)
    return axes


def with_outputs_placed(axes: Axes, names: Sequence[str], ranks: Sequence[int]) -> Axes:
    """These axes, those of outputs counted from the first, now that the program has run and its outputs are known."""
    if not axes.outputs:
        return axes
    outputs = {place: _named(names[place], named, ranks[place]) for place, named in axes.outputs.items()}
    return replace(axes, outputs=outputs)


def _named(name: str, wanted: Any, rank: int | None) -> Named:
    if isinstance(wanted, Mapping):
        axes = dict(wanted)
    elif isinstance(wanted, (list, tuple)):
        axes = dict.fromkeys(wanted, "")
    else:
        raise ArgumentError(
            f"dynamic_axes[{name!r}] is {wanted!r}: give a list of axes, [0, 2], or a dict of names, {{0: 'batch'}}"
        )
    result: Named = {}
    for axis, axis_name in axes.items():
        positive = _checked_axis(f"dynamic_axes[{name!r}]", name, axis, rank)
        if not isinstance(axis_name, str):
            raise ArgumentError(f"dynamic_axes[{name!r}][{axis}] is {axis_name!r}: the name of an axis is a string")
        if positive in result:
            raise ArgumentError(
                f"dynamic_axes[{name!r}] names one axis twice, as {positive} and as {positive - (rank or 0)}: name it "
                "once"
            )
        result[positive] = axis_name or f"{name}_dim_{positive}"
    return result


def _checked_axis(what: str, name: str, axis: Any, rank: int | None) -> int:
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise ArgumentError(f"{what} holds the axis {axis!r}: an axis is an int")
    if rank is not None and not -rank <= axis < rank:
        raise ArgumentError(f"{what} holds axis {axis}, and {name!r} has {rank} axes")
    return axis % rank if rank else axis


# --- dynamic_shapes ---------------------------------------------------------------------------------------------------


def shapes_by_argument(spec: DynamicShapes, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """`dynamic_shapes` by the names of the arguments, where it may be by their places."""
    if not isinstance(spec, (Mapping, list, tuple)):
        raise ArgumentError(
            f"dynamic_shapes is {spec!r}: give a dict by the names of arguments, {{'x': {{0: Dim('batch')}}}}, or a "
            "tuple with one entry for each"
        )
    if not isinstance(spec, Mapping):
        # Arguments without tensors, such as a number given by keyword, may be left out.
        holding = [name for name, argument in arguments.items() if any(True for _ in _paired(name, argument, None))]
        entitled = list(arguments) if len(spec) == len(arguments) else holding
        if len(spec) != len(entitled):
            raise ArgumentError(
                f"dynamic_shapes has {len(spec)} entries for {len(holding)} arguments with tensors "
                f"({', '.join(holding)}): give one for each, None where nothing varies"
            )
        spec = dict(zip(entitled, spec, strict=True))
    unknown = [name for name in spec if name not in arguments]
    if unknown:
        raise ArgumentError(
            f"dynamic_shapes names {unknown[0]!r}, which is no argument of the program ({', '.join(arguments)})"
        )
    return spec


def _from_dynamic_shapes(
    given: DynamicShapes, arguments: Mapping[str, Any], inputs: Mapping[str, torch.Tensor | Held]
) -> Axes:
    """A structure like that of the arguments, with a dict or a list of dimensions in the place of each tensor."""
    spec = shapes_by_argument(given, arguments)
    axes, automatic = Axes(), set[str]()
    _refuse_underived(spec, arguments)
    names = list(inputs)
    position = 0
    for name, argument in arguments.items():
        for tensor, wanted in _paired(f"dynamic_shapes[{name!r}]", argument, spec.get(name)):
            named = _dimensions(f"dynamic_shapes[{name!r}]", names[position], wanted, tensor, automatic, axes.ranges)
            if named:
                axes.inputs[position] = named
            position += 1
    return Axes(axes.inputs, axes.outputs, frozenset(automatic), axes.ranges)


def _paired(what: str, argument: Any, spec: Any) -> Iterator[tuple[torch.Tensor, Any]]:
    """The tensors of an argument, each with its part of the specification."""
    if isinstance(argument, torch.Tensor):
        yield argument, spec
    elif isinstance(argument, Held):
        yield argument.item, argument.mark.axes or None
    elif isinstance(argument, Mapping):
        for key, item in argument.items():
            yield from _paired(f"{what}[{key!r}]", item, None if spec is None else spec.get(key))
    elif isinstance(argument, (list, tuple)):
        if spec is not None and len(spec) != len(argument):
            raise ArgumentError(f"{what} has {len(spec)} entries for an argument of {len(argument)}")
        for number, item in enumerate(argument):
            yield from _paired(f"{what}[{number}]", item, None if spec is None else spec[number])


def _refuse_underived(spec: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Refuse sizes of the example that are not what `2 * Dim("n")` says of the size that is n."""
    sizes: dict[str, int] = {}
    derived: list[tuple[str, Any, int]] = []
    for name, argument in arguments.items():
        for tensor, wanted in _paired(f"dynamic_shapes[{name!r}]", argument, spec.get(name)):
            # What is no dict and no list is refused where the dimensions are read.
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
            # What it is derived from is the size of nothing itself: it follows from the first that is.
            root = sizes[dimension.root.__name__] = _root_of(dimension, size)
            if dimension.fn(root) != size:
                raise ArgumentError(
                    f"dynamic_shapes[{name!r}] wants {dimension.__name__}, and the example's size is {size}, which it "
                    f"is for no {dimension.root.__name__}"
                )
        if dimension.fn(root) != size:
            raise ArgumentError(
                f"dynamic_shapes[{name!r}] wants {dimension.__name__}, which is {dimension.fn(root)} where "
                f"{dimension.root.__name__} is {root}, and the example's size is {size}"
            )


def _root_of(dimension: Any, size: int) -> int:
    """Of `2 * n + 1` the n that comes nearest to a size; torch has no other than linear ones."""
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
            raise ArgumentError(f"{what} has {len(wanted)} entries, and {name!r} has {tensor.ndim} axes")
        by_axis = dict(enumerate(wanted))
    else:
        raise ArgumentError(f"{what} is {wanted!r}: give a dict, {{0: Dim('batch')}}, or one entry for each axis")
    named: Named = {}
    for axis, dimension in by_axis.items():
        positive = _checked_axis(what, name, axis, tensor.ndim)
        axis_name = _dimension_name(what, f"{name}_dim_{positive}", dimension, tensor.shape[positive])
        if axis_name is not None:
            named[positive] = axis_name
            if dimension is Dim.AUTO:
                automatic.add(axis_name)
            if isinstance(dimension, Dim):
                ranges[axis_name] = (dimension.min, dimension.max)
    return named


def _dimension_name(what: str, default: str, dimension: Any, size: int) -> str | None:
    """The name that a dimension gives its axis; None for one that does not vary."""
    if dimension is None or dimension is Dim.STATIC or (isinstance(dimension, int) and dimension == size):
        return None
    if dimension is Dim.AUTO or dimension is Dim.DYNAMIC:
        return default
    if isinstance(dimension, str):
        return dimension
    if isinstance(dimension, Dim):
        low, high = dimension.min, dimension.max
        if not low <= size <= high:
            raise ArgumentError(
                f"{what} wants {dimension.__name__} from {low} to {high}, and the example's size is {size}"
            )
        return str(dimension.__name__)
    raise ArgumentError(
        f"{what} holds {dimension!r}: give torch.export.Dim('name'), Dim.DYNAMIC, Dim.AUTO, a name, or None"
    )
