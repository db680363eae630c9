"""Names of inputs and outputs: those that were requested, and otherwise names made from parameters and positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx_parity.exporter.containers import leaves_of
from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.request.checks import checked_unicode
from onnx_parity.exporter.request.marked_inputs import is_input, is_number
from onnx_parity.exporter.request.names_in_objects import input_names_in

__all__ = ["checked_names", "input_names_for", "output_names_for"]


def input_names_for(arguments: Mapping[str, Any], requested: Sequence[str] | None, weights: int = 0) -> list[str]:
    """A name for each tensor among the arguments: the requested names in order, and then those of the parameters.

    Requested names beyond the number of inputs are those of weights.
    """
    names: list[str] = []
    for name, argument in arguments.items():
        in_object = input_names_in(name, argument)
        if in_object is not None:
            names.extend(in_object)
            continue
        count = sum(map(is_input, leaves_of(argument)))
        names.extend([name] if count == 1 else [f"{name}_{number}" for number in range(count)])
    requested = checked_names("input_names", requested)
    excess = len(requested) - len(names) - weights
    if excess > 0:
        raise ArgumentError(
            f"input_names has {len(requested)} names, but the program has {_counted(len(names), 'input')} and "
            f"{_counted(weights, 'weight')}: leave out the last {excess}{_of_numbers(arguments)}"
        )
    names[: len(requested)] = requested[: len(names)]
    _refuse_duplicates("input", [*names, *requested[len(names) :]])
    return names


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _of_numbers(arguments: Mapping[str, Any]) -> str:
    """How numbers become inputs, if there are any among the arguments."""
    names = [name for name, argument in arguments.items() if any(map(is_number, leaves_of(argument)))]
    if not names:
        return ""
    return f". Numbers are constants of the model unless dynamic_axes={{{names[0]!r}: AnyNumber()}} makes them inputs"


def output_names_for(
    count: int,
    requested: Sequence[str] | None,
    written: Sequence[str] = (),
    inputs: Sequence[str] = (),
    in_object: Sequence[str] | None = None,
) -> list[str]:
    """Names of the program's results and of its written values (`return_written`), different from those of inputs.

    `in_object` are those of a result that is, or that holds, an object with attributes.
    """
    names = ["output"] if count == 1 else [f"output_{number}" for number in range(count)]
    names = names if in_object is None else list(in_object)
    names += [f"{name}_written" for name in written]
    count += len(written)
    requested = checked_names("output_names", requested)
    if len(requested) > count:
        raise ArgumentError(
            f"output_names has {len(requested)} names ({', '.join(requested)}), but the program returns "
            f"{_counted(count, 'output')}: leave out the last {len(requested) - count}"
        )
    names = [*requested, *(_unlike((*inputs, *requested), name) for name in names[len(requested) :])]
    _refuse_duplicates("output", names)
    for name in requested:
        if name in inputs:
            raise ArgumentError(
                f"an input and an output are both called {name!r}, but every value of a model needs its own name: give "
                "another one in output_names"
            )
    return names


def checked_names(what: str, requested: object) -> list[str]:
    """The requested names as a list. `_refuse_duplicates` later checks that they are strings."""
    if requested is None:
        return []
    if not isinstance(requested, Sequence) or isinstance(requested, str | bytes):
        raise ArgumentError(f"{what} is {requested!r}: give a list of names, ['x', 'y']")
    return list(requested)


def _unlike(taken: Sequence[str], name: str) -> str:
    """The name, with `_out` appended until no other name equals it."""
    return _unlike(taken, f"{name}_out") if name in taken else name


def _refuse_duplicates(what: str, names: Sequence[object]) -> None:
    seen: set[object] = set()  # To count each name in the list would take seconds for ten thousand inputs.
    for name in names:
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"{what}_names contains {name!r}: give strings that are not empty")
        checked_unicode(f"{what}_names", name)
        if name in seen:
            raise ArgumentError(f"two {what}s are called {name!r}: give them different names in {what}_names")
        seen.add(name)
