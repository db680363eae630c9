"""Checks the arguments of `op` and `model`, so that a mistake is reported once, when the file is imported.

Every message begins with the file and the line of the declaration, names the mistake, and says what to write.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence

import torch

from onnx_parity.exporter.request.marked_inputs import ListOf, OrNone
from onnx_parity.harness.axes import OPSETS
from onnx_parity.harness.cases.arguments import arguments_of
from onnx_parity.harness.cases.dynamic_axes import DynamicAxes, example_sizes
from onnx_parity.harness.declaration_error import DeclarationError
from onnx_parity.harness.inputs import Listed, Maker


def check_program(place: str, program: object, *, is_model: bool) -> None:
    if isinstance(program, Maker) or not callable(program):
        raise DeclarationError(
            f"{place}: the first argument is the program, and {_shown(program)} cannot be called. "
            "Write what is to be run, then its inputs: op(torch.relu, floats(2, 3))."
        )
    if is_model and isinstance(program, torch.nn.Module):
        name = type(program).__name__
        raise DeclarationError(
            f"{place}: the first argument of model(...) makes a module, and this is one. Write model({name}, ...) with "
            f"the arguments of {name} as keywords, or model(lambda: {name}(...), ...)."
        )


def check_inputs(place: str, inputs: Iterable[object]) -> None:
    """Inputs are makers, or tuples of makers and of such tuples."""
    for value in inputs:
        if isinstance(value, tuple) and value and all(isinstance(each, int) for each in value):
            raise DeclarationError(
                f"{place}: the input {value!r} is a shape, but an input is a maker of a tensor. "
                f"Write floats({', '.join(map(str, value))}), or numbers, ints, bools or distinct of that shape."
            )
        if isinstance(value, tuple):
            check_inputs(place, value)
        elif isinstance(value, list):
            raise DeclarationError(
                f"{place}: the input {_shown(value)} is a list. Write a tuple for one argument that holds several "
                "tensors, or listed(floats(2, 3), floats(2, 3)) for an input that is a list."
            )
        elif not isinstance(value, Maker):
            raise DeclarationError(
                f"{place}: the input {_shown(value)} is of type {type(value).__name__}, but an input is a maker such "
                "as floats(2, 3), or given([1.0, 2.0]) for fixed values. Give other arguments as keywords, or in a "
                "lambda."
            )


def check_sweeps(place: str, keywords: Mapping[str, object], rows: object) -> None:
    """A keyword that is a list is swept over; `rows` is a list of combinations."""
    if isinstance(rows, Mapping) or not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
        raise DeclarationError(
            f"{place}: rows={_shown(rows)} is no list of combinations. "
            'Write one for each case: rows=[{"kernel_size": 2}, {"kernel_size": 3, "stride": 1}].'
        )
    for keyword, value in keywords.items():
        if isinstance(value, list) and not value:
            raise DeclarationError(f"{place}: {keyword}=[] has no values to sweep over. Give it a value, or a tuple.")
        if any(keyword in row for row in rows):
            raise DeclarationError(f"{place}: {keyword} is both a keyword and in rows=. Remove one of the two.")


def check_dtypes(place: str, dtypes: object) -> None:
    if isinstance(dtypes, torch.dtype | str) or not isinstance(dtypes, Sequence):
        raise DeclarationError(f"{place}: dtypes={dtypes} is no list of dtypes. Write dtypes=[torch.float32].")


def check_nodes(place: str, nodes: object) -> None:
    if not isinstance(nodes, Mapping) or any(type(opset) is not int or opset not in OPSETS for opset in nodes):
        raise DeclarationError(
            f"{place}: nodes={nodes} does not say from which of the opsets {OPSETS[0]} to {OPSETS[-1]} on a model has "
            "how many nodes at most. Write nodes={17: 1}."
        )
    for most in nodes.values():
        if type(most) is not int or most < 0:
            raise DeclarationError(f"{place}: nodes={nodes} has {most!r}, which is no number of nodes.")


def check_dynamic(
    place: str, inputs: Sequence[object], arguments: Iterable[Mapping[str, object]], dynamic: object, sizes: object
) -> None:
    """`dynamic` must name axes of inputs that every case has, and `sizes` other sizes of axes that it names."""
    _check_forms(place, dynamic, sizes)
    assert isinstance(dynamic, Mapping) and isinstance(sizes, Mapping)
    named: dict[str, int] = {}
    for keywords in arguments:
        named = _named(place, inputs, keywords, dynamic)
    for symbol in sizes:
        if symbol not in named:
            raise DeclarationError(
                f"{place}: sizes= has sizes for {symbol!r}, but dynamic= names "
                f"{', '.join(named) or 'no axis'}. Name an axis {symbol!r} in dynamic=, or remove it from sizes=."
            )


def _named(
    place: str, inputs: Sequence[object], keywords: Mapping[str, object], dynamic: DynamicAxes
) -> dict[str, int]:
    return example_sizes(dynamic, arguments_of(inputs, keywords, place).inputs, place)


def _check_forms(place: str, dynamic: object, sizes: object) -> None:
    if not isinstance(dynamic, Mapping):
        raise DeclarationError(
            f"{place}: dynamic={_shown(dynamic)} does not map inputs to their axes. "
            'Write dynamic={"x": {0: "batch"}}.'
        )
    for name, axes in dynamic.items():
        if not isinstance(axes, ListOf | OrNone) and not (
            isinstance(axes, Mapping)
            and all(isinstance(axis, int) and isinstance(symbol, str) for axis, symbol in axes.items())
        ):
            raise DeclarationError(
                f"{place}: dynamic= maps {name!r} to {_shown(axes)}, but not to the names of its axes. "
                f'Write dynamic={{"{name}": {{0: "batch"}}}}.'
            )
    if not isinstance(sizes, Mapping):
        raise DeclarationError(
            f'{place}: sizes={_shown(sizes)} does not map axes to their sizes. Write sizes={{"batch": [1, 5]}}.'
        )
    for symbol, others in sizes.items():
        if not isinstance(others, Sequence) or not others or not all(isinstance(size, int) for size in others):
            raise DeclarationError(
                f"{place}: sizes= maps {symbol!r} to {_shown(others)}, but not to a list of sizes. "
                f'Write sizes={{"{symbol}": [1, 5]}}.'
            )


def has_makers(values: Iterable[object]) -> bool:
    """Whether some of the values are inputs, in which case other values mean other inputs."""
    return any(isinstance(value, Maker) or (isinstance(value, tuple) and has_makers(value)) for value in values)


def makers_in(inputs: object) -> list[Maker]:
    """The makers among inputs, including those in tuples and in lists of tensors."""
    if isinstance(inputs, Listed):
        return list(inputs.items)
    if isinstance(inputs, Maker):
        return [inputs]
    return [maker for each in inputs for maker in makers_in(each)] if isinstance(inputs, tuple) else []


def _shown(value: object) -> str:
    if isinstance(value, Maker):
        return str(value)
    if isinstance(value, list) and has_makers(value):
        return f"[{', '.join(map(_shown, value))}]"
    return " ".join(reprlib.repr(value).split())
