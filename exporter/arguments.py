"""Reads the arguments of `export`: names of inputs and outputs, dynamic axes in all their spellings, the opset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from exporter.errors import ArgumentError, OpsetError

__all__ = ["DEFAULT_OPSET", "OPSETS", "Axes", "checked_opset", "input_names_for", "output_names_for", "split_args"]

#: Opsets that can be delivered. onnxruntime 1.31 runs those up to 26.
OPSETS = range(7, 29)
DEFAULT_OPSET = 18


def checked_opset(opset_version: int | None) -> int:
    if opset_version is None:
        return DEFAULT_OPSET
    if isinstance(opset_version, bool) or not isinstance(opset_version, int):
        raise OpsetError(f"opset_version is {opset_version!r}: give an int from {OPSETS[0]} to {OPSETS[-1]}")
    if opset_version not in OPSETS:
        raise OpsetError(
            f"opset_version={opset_version} cannot be delivered: this exporter writes opsets {OPSETS[0]} to {OPSETS[-1]}. "
            "Another one is never substituted; choose the newest that your runtime knows."
        )
    return opset_version


def split_args(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`torch.onnx`'s rule: a dict at the end of a tuple of args is keyword arguments; an empty one is dropped."""
    if not isinstance(args, (tuple, list)):
        args = (args,)
    args = tuple(args)
    named = dict(kwargs or {})
    if args and type(args[-1]) is dict and all(isinstance(key, str) for key in args[-1]) and not kwargs:
        named = dict(args[-1])
        args = args[:-1]
    return args, named


def input_names_for(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], parameters: Sequence[str], requested: Sequence[str] | None
) -> list[str]:
    """A name for each tensor among the arguments: as requested, from the start; else after the parameter it belongs to."""
    names: list[str] = []
    described = [*zip([*parameters, *(f"input_{i}" for i in range(len(parameters), len(args)))], args, strict=False)]
    for name, argument in [*described, *kwargs.items()]:
        leaves = pytree.tree_leaves_with_path(argument)
        tensors = [(path, leaf) for path, leaf in leaves if isinstance(leaf, torch.Tensor)]
        for number, (_, _leaf) in enumerate(tensors):
            names.append(name if len(tensors) == 1 else f"{name}_{number}")
    for number, name in enumerate(requested or ()):
        if number >= len(names):
            break
        names[number] = name
    _refuse_duplicates("input", names)
    return names


def output_names_for(count: int, requested: Sequence[str] | None) -> list[str]:
    names = ["output"] if count == 1 else [f"output_{number}" for number in range(count)]
    requested = list(requested or ())
    if len(requested) > count:
        raise ArgumentError(
            f"output_names names {len(requested)} outputs ({', '.join(requested)}), and the program returns {count}: "
            f"leave out the last {len(requested) - count}"
        )
    names[: len(requested)] = requested
    _refuse_duplicates("output", names)
    return names


def _refuse_duplicates(what: str, names: Sequence[str]) -> None:
    for name in names:
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"{what}_names holds {name!r}: every name is a string that is not empty")
        if names.count(name) > 1:
            raise ArgumentError(f"two {what}s are called {name!r}: give each a name of its own in {what}_names")


@dataclass(frozen=True, slots=True)
class Axes:
    """Dynamic axes by position: of each input and each output that has any, axis to name."""

    inputs: dict[int, dict[int, str]]
    outputs: dict[int, dict[int, str]]

    @staticmethod
    def none() -> Axes:
        return Axes({}, {})

    @staticmethod
    def from_dynamic_axes(
        spec: Mapping[str, Mapping[int, str] | Sequence[int]] | None,
        inputs: Mapping[str, torch.Tensor],
        output_names: Sequence[str],
    ) -> Axes:
        """The three spellings: `{"x": [0, 2]}`, `{"x": {0: "batch"}}`, and both mixed."""
        by_input: dict[int, dict[int, str]] = {}
        by_output: dict[int, dict[int, str]] = {}
        names = list(inputs)
        for name, axes in (spec or {}).items():
            if name not in inputs and name not in output_names:
                raise ArgumentError(
                    f"dynamic_axes names {name!r}, which is neither an input ({', '.join(names) or 'none'}) "
                    f"nor an output ({', '.join(output_names)}): see input_names and output_names"
                )
            if name in inputs:
                rank = inputs[name].ndim
                by_input[names.index(name)] = _named_axes(name, axes, rank)
            if name in output_names:
                # The rank of an output is known once the program has run.
                by_output[list(output_names).index(name)] = _named_axes(name, axes, None)
        axes_by_name: dict[str, tuple[str, int]] = {}
        for position, named in by_input.items():
            for axis, axis_name in named.items():
                size = inputs[names[position]].shape[axis]
                first, first_size = axes_by_name.setdefault(axis_name, (names[position], size))
                if size != first_size:
                    raise ArgumentError(
                        f"the axis name {axis_name!r} stands for size {first_size} in {first!r} and {size} in "
                        f"{names[position]!r}: axes of one name have one size; give them two names"
                    )
        return Axes(by_input, by_output)


def _named_axes(name: str, axes: Any, rank: int | None) -> dict[int, str]:
    if isinstance(axes, Mapping):
        named = dict(axes)
    elif isinstance(axes, (list, tuple)):
        named = dict.fromkeys(axes, "")
    else:
        raise ArgumentError(
            f"dynamic_axes[{name!r}] is {axes!r}: give a list of axes, [0, 2], or a dict of names, {{0: 'batch'}}"
        )
    result: dict[int, str] = {}
    for axis, axis_name in named.items():
        if isinstance(axis, bool) or not isinstance(axis, int):
            raise ArgumentError(f"dynamic_axes[{name!r}] holds the axis {axis!r}: an axis is an int")
        if rank is not None and not -rank <= axis < rank:
            raise ArgumentError(f"dynamic_axes[{name!r}] holds axis {axis}, and {name!r} has {rank} axes")
        if not isinstance(axis_name, str):
            raise ArgumentError(f"dynamic_axes[{name!r}][{axis}] is {axis_name!r}: the name of an axis is a string")
        positive = axis % rank if rank else axis
        result[positive] = axis_name or f"{name}_dim_{positive}"
    return result
