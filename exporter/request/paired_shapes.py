"""The tensors of an argument, each with its part of `dynamic_shapes`, which has the argument's structure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from onnx_parity.exporter.containers import Opened, attributes_of, children, named_leaves
from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.request.hints import kind_of_hint
from onnx_parity.exporter.request.marked_inputs import Held
from onnx_parity.exporter.torch_inside.pytree import BUILTIN_TYPES

__all__ = ["paired"]

_Inside = Sequence[tuple[str | int, Any]]


def paired(what: str, argument: Any, spec: Any) -> Iterator[tuple[torch.Tensor, Any]]:
    """The tensors of an argument in the order of the inputs, each with its part of the specification.

    The specification of an object with attributes is one of these: the axes of all its tensors, `{0: "batch"}`; a dict
    by the names of its attributes; a list with one entry for each of its tensors; or an object of the same class.
    """
    if isinstance(argument, torch.Tensor):
        yield argument, spec
        return
    if isinstance(argument, Held):
        yield argument.item, argument.mark.axes or None
        return
    inside = children(argument)
    if inside is None:
        if spec is not None and kind_of_hint(spec) != "STATIC":
            raise ArgumentError(
                f"{what} is {spec!r}, but the argument has no tensor there: give None{_filled(argument)}"
            )
    elif spec is None:
        for key, child in inside:
            yield from paired(f"{what}[{key!r}]", child, None)
    elif isinstance(argument, Mapping) and type(argument) in BUILTIN_TYPES:
        yield from _by_key(what, inside, spec)
    elif isinstance(argument, list | tuple):
        yield from _by_position(what, inside, spec)
    else:
        yield from _of_object(what, argument, inside, spec)


def _filled(argument: Any) -> str:
    """What else to give than an object that may hold tensors and holds none, such as a cache before the first call."""
    if argument is None or isinstance(argument, (bool, int, float, complex, str, bytes, torch.dtype, torch.device)):
        return ""
    return f", or an example whose {type(argument).__name__} holds tensors, as after a first call"


def _by_key(what: str, inside: _Inside, spec: Any) -> Iterator[tuple[torch.Tensor, Any]]:
    known = [key for key, _ in inside]
    if not isinstance(spec, Mapping):
        raise ArgumentError(f"{what} is {spec!r}: give a dict by the names in the argument, {_listed(known)}")
    unknown = [key for key in spec if key not in known and spec[key] is not None]
    if unknown:
        raise ArgumentError(f"{what} names {unknown[0]!r}, which the argument does not hold: give {_listed(known)}")
    for key, child in inside:
        yield from paired(f"{what}[{key!r}]", child, spec.get(key))


def _by_position(what: str, inside: _Inside, spec: Any) -> Iterator[tuple[torch.Tensor, Any]]:
    if not isinstance(spec, list | tuple):
        raise ArgumentError(f"{what} is {spec!r}: give a list with one entry for each of {len(inside)}, or None")
    if len(spec) != len(inside):
        raise ArgumentError(f"{what} has {len(spec)} entries for an argument of {len(inside)}: give one for each")
    for (key, child), part in zip(inside, spec, strict=True):
        yield from paired(f"{what}[{key!r}]", child, part)


def _of_object(what: str, argument: Any, inside: _Inside, spec: Any) -> Iterator[tuple[torch.Tensor, Any]]:
    cls = argument.cls if isinstance(argument, Opened) else type(argument)
    tensors = _tensors(argument)
    if type(spec) is cls:
        held = children(spec)
        parts = attributes_of(spec) if held is None else {str(key): part for key, part in held}
        for key, child in inside:
            yield from paired(f"{what}[{key!r}]", child, parts.get(str(key)) if _tensors(child) else None)
    elif isinstance(spec, Mapping) and spec and all(isinstance(axis, int) for axis in spec):
        yield from _for_all(what, cls, tensors, spec)
    elif isinstance(spec, Mapping):
        yield from _by_key(what, inside, spec)
    elif not isinstance(spec, list | tuple):
        raise ArgumentError(
            f"{what} is {spec!r}, but the argument is a {cls.__qualname__}: give the axes of all its tensors, "
            "{0: 'batch'}, a list with one entry for each tensor, or a dict by the names of its attributes"
        )
    else:
        entries = _entries(spec)
        # A dict by names is that of an attribute, as torch.export takes it, and not the axes of a tensor.
        is_by_attribute = any(isinstance(part, Mapping) and any(isinstance(key, str) for key in part) for part in spec)
        # In another nesting than the object's, the order is unknown, and does not matter if all entries are equal.
        fits = len(spec) == len(tensors) or all(each == entries[0] for each in entries)
        if len(entries) == len(tensors) and fits and not is_by_attribute:
            yield from zip(tensors, entries, strict=True)
        elif len(spec) == len(inside):
            yield from _by_position(what, inside, spec)
        else:
            raise ArgumentError(
                f"{what} has {len(entries)} entries, but the {cls.__qualname__} holds {len(tensors)} tensors: give one "
                "for each, or the axes of all of them, {0: 'batch'}"
            )


def _for_all(
    what: str, cls: type, tensors: Sequence[torch.Tensor], axes: Mapping[int, Any]
) -> Iterator[tuple[torch.Tensor, Any]]:
    """The same axes for each tensor that has them: not for a number that an object keeps in a tensor."""
    enough = max(axis + 1 if axis >= 0 else -axis for axis in axes)
    if all(tensor.ndim < enough for tensor in tensors):
        raise ArgumentError(
            f"{what} names {enough} axes, but no tensor of the {cls.__qualname__} has as many: give axes that they have"
        )
    yield from ((tensor, axes if tensor.ndim >= enough else None) for tensor in tensors)


def _tensors(argument: Any) -> list[torch.Tensor]:
    return [leaf for _, leaf in named_leaves(argument) if isinstance(leaf, torch.Tensor)]


def _entries(spec: Sequence[Any]) -> list[Any]:
    """The entries for tensors in a nested list. A list of dimensions is the entry of one tensor."""
    entries: list[Any] = []
    for each in spec:
        nested = isinstance(each, list | tuple) and any(isinstance(part, list | tuple | Mapping) for part in each)
        entries += _entries(each) if nested else [each]
    return entries


def _listed(keys: Sequence[str | int]) -> str:
    return "one of " + ", ".join(map(repr, keys)) if keys else "None"
