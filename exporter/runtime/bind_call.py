"""Binds the arguments of a call to the inputs of a model, by the rules for the program's own parameters."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import onnx_ir as ir
import torch

from onnx_parity.exporter.arrays import in_pairs
from onnx_parity.exporter.containers import Opened, opened
from onnx_parity.exporter.dtypes import TO_ONNX, TO_TORCH
from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.request.call_arguments import by_parameter, parameter_names, refuse_unknown_keywords
from onnx_parity.exporter.request.marked_inputs import Given, Held, OrNone, is_input
from onnx_parity.exporter.request.size_expressions import AxisSize, evaluated, is_expression, size_named
from onnx_parity.exporter.torch_inside import pytree

__all__ = ["feeds_of"]

_PLAIN = (int, float, complex, bool, str, type(None))


class _NotHeld(msgspec.Struct, frozen=True):
    """Stands for the values that an object does not hold yet, such as those of a cache before the first token."""

    #: The place of the object or of its attribute among the arguments.
    place: str


def feeds_of(
    signature: inspect.Signature | None,
    exported: tuple[tuple[Any, ...], Mapping[str, Any]],
    inputs: Sequence[ir.Value],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> dict[str, Given]:
    """The values of a call by the name of the model's input. `exported` are the example arguments of the export."""
    refuse_unknown_keywords(args, kwargs, signature)
    parameters = parameter_names(signature)
    own = by_parameter(parameters, *exported)
    given = by_parameter(parameters, *opened((tuple(args), kwargs)))
    defaults = {p.name: p.default for p in signature.parameters.values()} if signature is not None else {}
    names = [value.name or "" for value in inputs]
    _refuse_others(own, given, defaults, names)
    fed: list[Given | _NotHeld] = []
    #: Numbers that the model takes to be the sizes of axes.
    kept: list[tuple[str, Any, str]] = []
    for name, before in own.items():
        if name not in given:
            # An argument that may be None may also be left out.
            fed += [None] if isinstance(before, Held) else []
            continue
        for place, one, other in _paired(name, given[name], before):
            if isinstance(one, _NotHeld):
                fed += [one] if is_input(other) else []
            elif isinstance(other, AxisSize):
                kept.append((place, one, other.axis))
            elif is_input(other):
                wanted = _wanted(other)
                if not _fits(one, other):
                    raise ArgumentError(
                        f"{place} is {wanted} in the model, but {_described(one)} was given: give {wanted}"
                    )
                given_there = other.as_input(one) if isinstance(other, Held) else one
                fed.append(list(given_there) if isinstance(given_there, tuple) else given_there)
            else:
                _refuse_other_constant(place, one, other)
    values = _with_empty_tensors(inputs, fed)
    sizes = _check(inputs, values)
    for place, number, axis in kept:
        size = size_named(axis, {name: known for name, (known, _) in sizes.items()})
        if number != size and axis not in sizes:
            raise ArgumentError(
                f"{place} is {number!r}, but the model takes it to be {axis}, as in the example that it was exported "
                f"with, which is {size}"
            )
        if number != size:
            raise ArgumentError(
                f"{place} is {number!r}, but the model takes it to be the size of the axis {axis!r}, as in the example "
                f"that it was exported with, and {sizes[axis][1]!r} has size {sizes[axis][0]} there"
            )
    if not all(map(str.isidentifier, sizes)):
        # An object that holds no tensor yet says nothing of sizes.
        held = [(value, each) for value, each in zip(inputs, fed, strict=True) if not isinstance(each, _NotHeld)]
        _refuse_other_than_named(sizes if len(held) == len(fed) else _check(*zip(*held, strict=True)))
    return dict(zip(names, values, strict=True))


def _with_empty_tensors(inputs: Sequence[ir.Value], fed: Sequence[Given | _NotHeld]) -> list[Given]:
    """The values of the inputs, with empty tensors for objects that hold none.

    Their axes have the sizes that other inputs give them, and those that no other input has are 0.
    """
    given = [(value, each) for value, each in zip(inputs, fed, strict=True) if not isinstance(each, _NotHeld)]
    if len(given) == len(fed):
        return [each for _, each in given]
    known = {name: size for name, (size, _) in _check(*zip(*given, strict=True)).items()} if given else {}
    return [
        _empty(value, each.place, known) if isinstance(each, _NotHeld) else each
        for value, each in zip(inputs, fed, strict=True)
    ]


def _empty(value: ir.Value, place: str, known: Mapping[str, int]) -> torch.Tensor:
    sizes = []
    for size in value.shape or ():
        try:
            sizes.append(size if isinstance(size, int) else size_named(size.value or "", known))
        except KeyError:
            sizes.append(0)
    if 0 not in sizes:
        raise ArgumentError(
            f"{place} holds no tensor, but {value.name!r} has {sizes} in the model, which is not empty: give an object "
            "that holds its tensors"
        )
    return torch.empty(sizes, dtype=_torch_dtype(value))


def _torch_dtype(value: ir.Value) -> torch.dtype | None:
    return None if value.dtype is None else TO_TORCH.get(value.dtype)


def _wanted(exported: torch.Tensor | Held) -> str:
    return exported.said if isinstance(exported, Held) else "a tensor"


def _fits(given: Any, exported: torch.Tensor | Held) -> bool:
    return exported.accepts(given) if isinstance(exported, Held) else isinstance(given, torch.Tensor)


def _refuse_others(
    own: Mapping[str, Any], given: Mapping[str, Any], defaults: Mapping[str, Any], inputs: Sequence[str]
) -> None:
    """Refuse a call that lacks a tensor, or that has an argument which the program was exported without.

    Numbers and strings may be omitted, because they are constants of the model.
    """
    count = sum(map(_tensors_in, given.values()))
    takes = f"the model takes {len(inputs)} tensor{'' if len(inputs) == 1 else 's'} ({', '.join(inputs)})"
    for name, before in own.items():
        omitted = isinstance(before, Held) and isinstance(before.mark, OrNone) and defaults.get(name, before) is None
        if name not in given and _tensors_in(before) and not omitted:
            raise ArgumentError(f"{takes}, but got {count}: {name!r} is missing, give it too")
    for name, argument in given.items():
        if name not in own and _tensors_in(argument):
            raise ArgumentError(f"{takes}, but got {count}: it was exported without {name!r}, leave it out")
        if name not in own:
            _refuse_other_constant(name, argument, defaults.get(name, argument))


def _tensors_in(argument: Any) -> int:
    return sum(map(is_input, pytree.tree_leaves(argument)))


def _paired(place: str, given: Any, exported: Any) -> Iterator[tuple[str, Any, Any]]:
    """Pairs of leaves, of an argument and of the exported one. They are in the order of the export, because the items
    of a dict may be in another order."""
    if isinstance(exported, Held):
        yield place, given, exported
    elif isinstance(exported, dict) and isinstance(given, Mapping):
        if exported.keys() != given.keys():
            raise ArgumentError(
                f"{place} has the keys {[*given]}, but the program was exported with {[*exported]}: give these"
            )
        for key, before in exported.items():
            yield from _paired(f"{place}[{key!r}]", given[key], before)
    elif isinstance(exported, Opened) and isinstance(given, Opened):
        if exported.cls is not given.cls:
            raise ArgumentError(
                f"{place} is a {given.cls.__qualname__}, but the program was exported with a "
                f"{exported.cls.__qualname__}: give one"
            )
        yield from _paired(f"{place}'s items", given.items, exported.items)
        is_filled = not any(
            given.attributes.get(name) is None and is_input(before) for name, before in exported.attributes.items()
        )
        for name, before in exported.attributes.items():
            one = given.attributes.get(name)
            if is_filled or isinstance(one, torch.Tensor):
                yield from _paired(f"{place}.{name}", one, before)
            else:
                yield from _not_held(f"{place}.{name}", before)
    elif isinstance(exported, Opened) and type(given) is exported.cls:
        yield from _not_held(place, exported)
    elif isinstance(exported, (list, tuple)) and isinstance(given, (list, tuple)):
        if len(exported) != len(given):
            raise ArgumentError(
                f"{place} has {len(given)} items, but the program was exported with {len(exported)}: give as many"
            )
        for number, (one, before) in enumerate(zip(given, exported, strict=True)):
            yield from _paired(f"{place}[{number}]", one, before)
    else:
        ours, theirs = pytree.tree_leaves(given), pytree.tree_leaves(exported)
        if len(ours) != len(theirs):
            raise ArgumentError(
                f"{place} is {_described(given)}, but the program was exported with {_described(exported)}: give "
                "one of the same structure"
            )
        yield from ((place, one, before) for one, before in zip(ours, theirs, strict=True))


def _not_held(place: str, exported: Any) -> Iterator[tuple[str, Any, Any]]:
    yield from ((place, _NotHeld(place), before) for before in pytree.tree_leaves(exported))


def _refuse_other_constant(place: str, given: Any, exported: Any) -> None:
    """Refuse a number or string that differs from the exported one, which is a constant of the model."""
    if isinstance(given, torch.Tensor):
        raise ArgumentError(
            f"{place} is a tensor, but the model was exported with the constant {exported!r} there. Export it with a "
            "tensor"
        )
    if isinstance(given, _PLAIN) and isinstance(exported, _PLAIN) and given != exported and given == given:
        raise ArgumentError(
            f"{place} is {given!r}, but the model was exported with the constant {exported!r} there. Export it with "
            "this value, or make it a tensor"
        )


def _check(inputs: Sequence[ir.Value], fed: Sequence[Given]) -> dict[str, tuple[int, str]]:
    """Refuse tensors that do not fit the model's inputs. A runtime would not name the argument in its error.

    Returns the sizes of the named axes, each with the name of an input that has it.
    """
    seen: dict[str, tuple[int, str]] = {}
    for value, given in zip(inputs, fed, strict=True):
        for tensor in given if isinstance(given, list) else [] if given is None else [given]:
            _check_tensor(value, tensor, {} if isinstance(given, list) else seen)
    return seen


def _refuse_other_than_named(sizes: Mapping[str, tuple[int, str]]) -> None:
    """Refuse sizes of which one is not what its name computes from others."""
    known = {name: size for name, (size, _) in sizes.items()}
    for name, (size, holder) in sizes.items():
        if is_expression(name, known) and (wanted := evaluated(name, known)) != size:
            raise ArgumentError(
                f"the axis {name!r} has size {size} in {holder!r}, but the axes that it names give {wanted}: give "
                "tensors that fit"
            )


def _check_tensor(value: ir.Value, tensor: torch.Tensor, seen: dict[str, tuple[int, str]]) -> None:
    """Check one tensor. `seen` has the sizes of named axes so far; each tensor of a list has its own sizes."""
    if tensor.is_meta:
        raise ArgumentError(f"the input {value.name!r} is on the meta device, which has no data: give its values")
    tensor = in_pairs(tensor)
    shape = [size.value if isinstance(size, ir.SymbolicDim) else size for size in value.shape or ()]
    sizes = zip(shape, tensor.shape, strict=False)
    if TO_ONNX.get(tensor.dtype) is not value.dtype:
        advice = "convert it with .to(...)"
    elif len(shape) != tensor.ndim:
        advice = "give a tensor with this number of axes"
    elif any(isinstance(wanted, int) and wanted != size for wanted, size in sizes):
        advice = "to let an axis have any size, name it in dynamic_axes when the program is exported"
    else:
        for wanted, size in zip(shape, tensor.shape, strict=True):
            if isinstance(wanted, str):
                first, where = seen.setdefault(wanted, (size, value.name or ""))
                if first != size:
                    raise ArgumentError(
                        f"the axis {wanted!r} has size {first} in {where!r} and {size} in {value.name!r}: axes with "
                        "the same name must have the same size"
                    )
        return
    raise ArgumentError(
        f"the input {value.name!r} must be {_torch_dtype(value)}[{', '.join(map(str, shape))}], and "
        f"{_described(tensor)} was given: {advice}"
    )


def _described(argument: Any) -> str:
    if isinstance(argument, torch.Tensor):
        return f"{argument.dtype}{list(argument.shape)}"
    if isinstance(argument, Opened):
        return f"a {argument.cls.__qualname__}"
    return repr(argument) if isinstance(argument, _PLAIN) else f"a {type(argument).__qualname__}"
