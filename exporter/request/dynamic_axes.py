"""Dynamic axes: the three forms of `dynamic_axes` that users write, and axes by position for the recording."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import msgspec
import torch
from msgspec.structs import replace

from onnx_parity.exporter.errors import ArgumentError, OnnxExporterWarning
from onnx_parity.exporter.request.checks import checked_unicode
from onnx_parity.exporter.request.marked_inputs import Held, Mark, example_of, without_marks
from onnx_parity.exporter.torch_inside.frames import warn_at_users_line

__all__ = [
    "Axes",
    "DynamicAxes",
    "Named",
    "axes_from_dynamic_axes",
    "checked_axis",
    "with_outputs_placed",
]

DynamicAxes = Mapping[str, Mapping[int, str] | Sequence[int] | Mark]
#: The dynamic axes of one input or output: axis to name.
Named = dict[int, str]


class Axes(msgspec.Struct, frozen=True):
    """Dynamic axes by position, for each input and each output that has any."""

    inputs: dict[int, Named] = {}
    outputs: dict[int, Named] = {}
    #: Names of axes with `Dim.AUTO`: if the program fixes their sizes, they become static without an error.
    automatic: frozenset[str] = frozenset()
    #: Whether an axis that the program can run with only one size of is an error, and not a warning.
    must_vary: bool = False
    #: By name, the declared smallest and largest size of an axis; torch's `int_oo` is no largest size.
    ranges: dict[str, tuple[Any, Any]] = {}
    #: Names that no axis has itself, and that the names of others are computed from: h of the axis "8*h".
    bases: frozenset[str] = frozenset()
    #: Whether these are the ranges of a program of torch.export, where an axis with a hint has 2 as its smallest size.
    are_torchs: bool = False

    @property
    def names(self) -> set[str]:
        """The names of all dynamic sizes of inputs."""
        return {*self.bases, *(name for named in self.inputs.values() for name in named.values())}

    def without(self, names: Container[str]) -> Axes:
        """These axes without those of the given names, which become static."""
        inputs = {
            position: {axis: name for axis, name in named.items() if name not in names}
            for position, named in self.inputs.items()
        }
        return replace(self, inputs=inputs)

    def renamed(self, requested: Axes, inputs: Sequence[str]) -> Axes:
        """The axes of an exported program, with the names that were requested for them."""
        names: dict[str, str] = {}
        for position, named in requested.inputs.items():
            for axis, name in named.items():
                own = self.inputs.get(position, {}).get(axis)
                if own is None:
                    raise ArgumentError(
                        f"axis {axis} of {inputs[position]!r} is static in the exported program: call "
                        "torch.export.export with dynamic_shapes that make it dynamic"
                    )
                names[own] = name
        renamed = {
            position: {axis: names.get(name, name) for axis, name in named.items()}
            for position, named in self.inputs.items()
        }
        ranges = {names.get(name, name): bounds for name, bounds in self.ranges.items()}
        return Axes(renamed, requested.outputs, self.automatic, requested.must_vary, ranges, are_torchs=self.are_torchs)


def axes_from_dynamic_axes(
    spec: DynamicAxes,
    inputs: Mapping[str, torch.Tensor | Held],
    output_names: Sequence[str],
    *,
    refuse_unknown: bool = False,
) -> Axes:
    """Read `dynamic_axes`: `{"x": [0, 2]}`, `{"x": {0: "batch"}}`, or a mixture of both."""
    axes = Axes()
    names = list(inputs)
    for name, given in inputs.items():
        if isinstance(given, Held) and given.mark.axes:
            axes.inputs[names.index(name)] = _named(name, given.mark.axes, given.item.ndim)
    for name, wanted in without_marks(spec).items():
        if name not in inputs and name not in output_names:
            import difflib  # It takes a millisecond.

            alike = difflib.get_close_matches(name, [*names, *output_names], 1)
            meant = f"did you mean {alike[0]!r}?" if alike else "see input_names and output_names"
            unknown = (
                f"dynamic_axes names {name!r}, which is neither an input ({', '.join(names) or 'none'}) "
                f"nor an output ({', '.join(output_names)})"
            )
            if refuse_unknown:
                raise ArgumentError(f"{unknown}: {meant}")
            warn_at_users_line(f"{unknown}, and is ignored: {meant}", OnnxExporterWarning)
            continue
        if name in inputs:
            axes.inputs[names.index(name)] = _named(name, wanted, example_of(inputs[name]).ndim)
        if name in output_names:
            # The rank of an output is only known after the program has been recorded.
            axes.outputs[list(output_names).index(name)] = _named(name, wanted, None)
    return axes


def with_outputs_placed(axes: Axes, names: Sequence[str], ranks: Sequence[int]) -> Axes:
    """These axes, with negative axes of outputs made positive. Called when the ranks of the outputs are known."""
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
        positive = checked_axis(f"dynamic_axes[{name!r}]", name, axis, rank)
        if not isinstance(axis_name, str):
            raise ArgumentError(f"dynamic_axes[{name!r}][{axis}] is {axis_name!r}: give a string as the axis's name")
        if positive in result:
            raise ArgumentError(
                f"dynamic_axes[{name!r}] names one axis twice, as {positive} and as {positive - (rank or 0)}: name it "
                "once"
            )
        result[positive] = checked_unicode("dynamic_axes", axis_name) or f"{name}_dim_{positive}"
    return result


def checked_axis(what: str, name: str, axis: Any, rank: int | None) -> int:
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise ArgumentError(f"{what} names the axis {axis!r}: give an int")
    if rank is not None and not -rank <= axis < rank:
        raise ArgumentError(f"{what} names axis {axis}, but {name!r} has {rank} axes: give one of them")
    return axis % rank if rank else axis
