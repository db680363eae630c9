"""What a model is run with: a call's arguments as the program's parameters have them, held to the model's inputs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from onnx_parity.exporter.dtypes import TO_ONNX
from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.request.call_arguments import by_parameter, parameter_names, refuse_unknown_keywords
from onnx_parity.exporter.request.marked_inputs import Given, Held, ListOf, OrNone, is_input

__all__ = ["feeds_of"]

_PLAIN = (int, float, complex, bool, str, type(None))


def feeds_of(
    signature: inspect.Signature | None,
    exported: tuple[tuple[Any, ...], Mapping[str, Any]],
    inputs: Sequence[ir.Value],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> dict[str, Given]:
    """What a call gives, by the inputs of the model; `exported` is what the program was exported with."""
    refuse_unknown_keywords(args, kwargs, signature)
    parameters = parameter_names(signature)
    own = by_parameter(parameters, *exported)
    given = by_parameter(parameters, tuple(args), kwargs)
    defaults = {p.name: p.default for p in signature.parameters.values()} if signature is not None else {}
    names = [value.name or "" for value in inputs]
    _refuse_others(own, given, defaults, names)
    fed: list[Given] = []
    for name, before in own.items():
        if name not in given:
            # What may be None may be left out.
            fed += [None] if isinstance(before, Held) else []
            continue
        for place, one, other in _paired(name, given[name], before):
            if is_input(other):
                wanted = _wanted(other)
                if not _fits(one, other):
                    raise ArgumentError(f"{place} is {wanted} in the model, and {_said(one)} was given: give {wanted}")
                fed.append(list(one) if isinstance(one, tuple) else one)
            else:
                _refuse_other_constant(place, one, other)
    _check(inputs, fed)
    return dict(zip(names, fed, strict=True))


def _wanted(exported: torch.Tensor | Held) -> str:
    return exported.mark.said if isinstance(exported, Held) else "a tensor"


def _fits(given: Any, exported: torch.Tensor | Held) -> bool:
    if isinstance(exported, Held) and isinstance(exported.mark, ListOf):
        return isinstance(given, (list, tuple)) and all(isinstance(item, torch.Tensor) for item in given)
    return isinstance(given, torch.Tensor) or (given is None and isinstance(exported, Held))


def _refuse_others(
    own: Mapping[str, Any], given: Mapping[str, Any], defaults: Mapping[str, Any], inputs: Sequence[str]
) -> None:
    """Tensors that are missing, and arguments that the program was exported without.

    Numbers and strings need not be given again: they are in the model.
    """
    count = sum(map(_tensors_in, given.values()))
    takes = f"the model takes {len(inputs)} tensor{'' if len(inputs) == 1 else 's'} ({', '.join(inputs)})"
    for name, before in own.items():
        omitted = isinstance(before, Held) and isinstance(before.mark, OrNone) and defaults.get(name, before) is None
        if name not in given and _tensors_in(before) and not omitted:
            raise ArgumentError(f"{takes}, and got {count}: {name!r} is missing")
    for name, argument in given.items():
        if name not in own and _tensors_in(argument):
            raise ArgumentError(f"{takes}, and got {count}: it was exported without {name!r}")
        if name not in own:
            _refuse_other_constant(name, argument, defaults.get(name, argument))


def _tensors_in(argument: Any) -> int:
    return sum(map(is_input, pytree.tree_leaves(argument)))


def _paired(place: str, given: Any, exported: Any) -> Iterator[tuple[str, Any, Any]]:
    """The leaves of an argument in the order of those that it was exported with, which a dict may have in another."""
    if isinstance(exported, Held):
        yield place, given, exported
    elif isinstance(exported, dict) and isinstance(given, Mapping):
        if exported.keys() != given.keys():
            raise ArgumentError(f"{place} has the keys {[*given]}, and the program was exported with {[*exported]}")
        for key, before in exported.items():
            yield from _paired(f"{place}[{key!r}]", given[key], before)
    elif isinstance(exported, (list, tuple)) and isinstance(given, (list, tuple)):
        if len(exported) != len(given):
            raise ArgumentError(f"{place} has {len(given)} items, and the program was exported with {len(exported)}")
        for number, (one, before) in enumerate(zip(given, exported, strict=True)):
            yield from _paired(f"{place}[{number}]", one, before)
    else:
        ours, theirs = pytree.tree_leaves(given), pytree.tree_leaves(exported)
        if len(ours) != len(theirs):
            raise ArgumentError(
                f"{place} is {_said(given)}, and the program was exported with {_said(exported)}: give one like it"
            )
        yield from ((place, one, before) for one, before in zip(ours, theirs, strict=True))


def _refuse_other_constant(place: str, given: Any, exported: Any) -> None:
    """Numbers and strings are built into the model: with others it would give the results of its own."""
    if isinstance(given, torch.Tensor):
        raise ArgumentError(
            f"the model was exported with {exported!r} for {place}, where a tensor is given: it is built in. Export "
            "with a tensor"
        )
    if isinstance(given, _PLAIN) and isinstance(exported, _PLAIN) and given != exported and given == given:
        raise ArgumentError(
            f"the model was exported with {exported!r} where {given!r} is given: it is built in. Export with that, "
            "or make it a tensor"
        )


def _check(inputs: Sequence[ir.Value], fed: Sequence[Given]) -> None:
    """Refuse what the model does not take, before a runtime does so in words of its own."""
    seen: dict[str, tuple[int, str]] = {}
    for value, given in zip(inputs, fed, strict=True):
        for tensor in given if isinstance(given, list) else [] if given is None else [given]:
            _check_tensor(value, tensor, {} if isinstance(given, list) else seen)


def _check_tensor(value: ir.Value, tensor: torch.Tensor, seen: dict[str, tuple[int, str]]) -> None:
    """One of them; `seen` are the sizes of axes that have names, which those of a list have each for itself."""
    shape = [size.value if isinstance(size, ir.SymbolicDim) else size for size in value.shape or ()]
    sizes = zip(shape, tensor.shape, strict=False)
    if TO_ONNX.get(tensor.dtype) is not value.dtype:
        advice = "convert it with .to(...)"
    elif len(shape) != tensor.ndim:
        advice = "give as many axes"
    elif any(isinstance(wanted, int) and wanted != size for wanted, size in sizes):
        advice = "sizes that vary are asked for with dynamic_axes, when the program is exported"
    else:
        for wanted, size in zip(shape, tensor.shape, strict=True):
            if isinstance(wanted, str) and wanted.isidentifier():
                first, where = seen.setdefault(wanted, (size, value.name or ""))
                if first != size:
                    raise ArgumentError(
                        f"the axis {wanted!r} has size {first} in {where!r} and {size} in {value.name!r}: axes of "
                        "one name have one size"
                    )
        return
    dtype = next((torch_dtype for torch_dtype, onnx_type in TO_ONNX.items() if onnx_type is value.dtype), None)
    raise ArgumentError(
        f"the input {value.name!r} has to be {dtype}[{', '.join(map(str, shape))}], and {_said(tensor)} was given: "
        f"{advice}"
    )


def _said(argument: Any) -> str:
    if isinstance(argument, torch.Tensor):
        return f"{argument.dtype}{list(argument.shape)}"
    return repr(argument) if isinstance(argument, _PLAIN) else f"a {type(argument).__qualname__}"
