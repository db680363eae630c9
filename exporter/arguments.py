"""Reads the arguments of `export`: names of inputs and outputs, the mode, the opset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from exporter.errors import ArgumentError, OpsetError

__all__ = [
    "DEFAULT_OPSET",
    "OPSETS",
    "by_parameter",
    "checked_opset",
    "input_names_for",
    "output_names_for",
    "split_args",
    "trains",
]

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
            f"opset_version={opset_version} cannot be delivered: this exporter writes opsets {OPSETS[0]} to "
            f"{OPSETS[-1]}. Another one is never substituted; choose the newest that your runtime knows."
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


def by_parameter(parameters: Sequence[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by the parameter each belongs to; those beyond the named ones are `input_3`, ..."""
    names = [*parameters[: len(args)], *(f"input_{number}" for number in range(len(parameters), len(args)))]
    return {**dict(zip(names, args, strict=True)), **kwargs}


def trains(training: object) -> bool | None:
    """Whether to export in training mode, None for the mode each part is in. Takes `torch.onnx.TrainingMode`s too."""
    modes = {"EVAL": False, "TRAINING": True, "PRESERVE": None}
    if isinstance(training, bool):
        return training
    name = getattr(training, "name", None)
    if name not in modes:
        raise ArgumentError(f"training is {training!r}: give True, False, or a torch.onnx.TrainingMode")
    return modes[name]


def input_names_for(arguments: Mapping[str, Any], requested: Sequence[str] | None) -> list[str]:
    """A name for each tensor among the arguments: as requested, from the first; else after its parameter."""
    names: list[str] = []
    for name, argument in arguments.items():
        count = sum(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(argument))
        names.extend([name] if count == 1 else [f"{name}_{number}" for number in range(count)])
    requested = list(requested or ())
    names[: min(len(requested), len(names))] = requested[: len(names)]
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


def _refuse_duplicates(what: str, names: Sequence[object]) -> None:
    for name in names:
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"{what}_names holds {name!r}: every name is a string that is not empty")
        if names.count(name) > 1:
            raise ArgumentError(f"two {what}s are called {name!r}: give each a name of its own in {what}_names")
