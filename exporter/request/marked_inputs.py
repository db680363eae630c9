"""Marked inputs: arguments that are a list of any length (`ListOf`), a tensor that may be None (`OrNone`), or a number
that is not a constant of the model (`AnyNumber`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
import torch

from onnx_parity.exporter.containers import Whole
from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.request.hints import kind_of_hint
from onnx_parity.exporter.torch_inside import pytree

__all__ = [
    "AnyNumber",
    "Given",
    "Held",
    "Layout",
    "ListOf",
    "Mark",
    "OrNone",
    "example_of",
    "is_input",
    "is_number",
    "without_marks",
    "wrapped_by_name",
    "wrapped_by_shape",
]


@dataclass(frozen=True, slots=True)
class ListOf:
    """In `dynamic_shapes` or `dynamic_axes`: the argument is a list of any number of tensors, a sequence in ONNX.

        export(torch.jit.script(model), ([a, b],), dynamic_axes={"images": ListOf({1: "height", 2: "width"})})

    `axes` are those whose sizes may differ between the tensors; the others have the example's sizes. Scripts can
    iterate over, index and change such a list. A traced program can only pass it to scripts.
    """

    axes: Mapping[int, Any] = field(default_factory=dict)
    said: ClassVar[str] = "a list of tensors"


@dataclass(frozen=True, slots=True)
class OrNone:
    """In `dynamic_shapes` or `dynamic_axes`: the argument is a tensor that may be None, an optional in ONNX.

        export(torch.jit.script(model), (x, mask), dynamic_axes={"mask": OrNone({0: "batch"})})

    `axes` are the dynamic axes. The example must be a tensor, which gives the dtype and the sizes. The program must be
    a script.
    """

    axes: Mapping[int, Any] = field(default_factory=dict)
    said: ClassVar[str] = "a tensor or None"


@dataclass(frozen=True, slots=True)
class AnyNumber:
    """In `dynamic_shapes` or `dynamic_axes`: the argument is an int, a float or a bool, and an input of the model.

        export(model, (x, 3), dynamic_axes={"times": AnyNumber()})

    The input is a tensor without axes, of int64, float64 or bool. If the argument is a list, tuple or dict of numbers,
    each of them is an input. Numbers that are not marked are constants of the model.
    """

    axes: ClassVar[Mapping[int, Any]] = {}


Mark = ListOf | OrNone | AnyNumber
#: The dtype of the input that a number becomes.
_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64}
#: The value of an input of the model: a tensor; a list of tensors for a `ListOf`; a tensor or None for an `OrNone`.
Given = torch.Tensor | list[torch.Tensor] | None


class Held(Whole, msgspec.Struct, frozen=True, eq=False):
    """A marked argument, wrapped so that pytree treats it as one leaf. It becomes one input."""

    mark: Mark
    items: tuple[torch.Tensor, ...]

    @property
    def said(self) -> str:
        """The kind of argument that is to be given, for messages."""
        names = {torch.bool: "a bool", torch.int64: "an int", torch.float64: "a float"}
        return names[self.item.dtype] if isinstance(self.mark, AnyNumber) else self.mark.said

    @property
    def item(self) -> torch.Tensor:
        """The first tensor, from which dtype and static sizes are taken."""
        return self.items[0]

    @property
    def given(self) -> Given:
        return list(self.items) if isinstance(self.mark, ListOf) else self.item

    def accepts(self, given: Any) -> bool:
        """Whether an argument can be given in this place."""
        if isinstance(self.mark, ListOf):
            return isinstance(given, (list, tuple)) and all(isinstance(item, torch.Tensor) for item in given)
        if isinstance(given, torch.Tensor):
            return True
        if isinstance(self.mark, OrNone):
            return given is None
        return is_number(given) and torch.can_cast(_DTYPES[type(given)], self.item.dtype)

    def as_input(self, given: Any) -> Given:
        """An argument in this place as the value of the input."""
        is_plain = isinstance(self.mark, AnyNumber) and not isinstance(given, torch.Tensor)
        return torch.tensor(given, dtype=self.item.dtype) if is_plain else given

    def as_argument(self, given: Given) -> Any:
        """The value of the input as the program's argument."""
        return given.item() if isinstance(self.mark, AnyNumber) and isinstance(given, torch.Tensor) else given

    @classmethod
    def of(cls, what: str, argument: Any, mark: Mark) -> Held:
        if isinstance(mark, AnyNumber):
            if not is_number(argument):
                raise ArgumentError(
                    f"{what} is an AnyNumber, but the example has {_description(argument)} there: give an int, a float "
                    "or a bool"
                )
            return cls(mark, (torch.tensor(argument, dtype=_DTYPES[type(argument)]),))
        if isinstance(mark, OrNone):
            if not isinstance(argument, torch.Tensor):
                raise ArgumentError(
                    f"{what} is an OrNone, but the example has {_description(argument)} there: give a tensor, which "
                    "gives dtype and sizes; None can be passed when the model runs"
                )
            return cls(mark, (argument,))
        if not isinstance(argument, (list, tuple)) or not all(isinstance(item, torch.Tensor) for item in argument):
            raise ArgumentError(
                f"{what} is a ListOf, but the example has {_description(argument)} there: give a list of tensors"
            )
        if not argument:
            raise ArgumentError(
                f"{what} is a ListOf, but the example's list is empty: give a list of at least one tensor, which gives "
                "dtype and sizes"
            )
        first = argument[0]
        fixed = [axis for axis in range(first.ndim) if axis not in {axis % first.ndim for axis in mark.axes}]
        for number, item in enumerate(argument):
            if item.dtype is not first.dtype or item.ndim != first.ndim:
                raise ArgumentError(
                    f"{what} is a ListOf, but in the example's list item 0 is {_description(first)} and item {number} "
                    f"is {_description(item)}: give tensors of one dtype and one number of axes, as ONNX requires"
                )
            unlike = [axis for axis in fixed if item.shape[axis] != first.shape[axis]]
            if unlike:
                raise ArgumentError(
                    f"{what} is a ListOf whose axis {unlike[0]} is static, but in the example's list item 0 has size "
                    f"{first.shape[unlike[0]]} there and item {number} has size {item.shape[unlike[0]]}: make the axis "
                    f"dynamic, ListOf({{{unlike[0]}: 'size'}})"
                )
        return cls(mark, tuple(argument))


def _description(argument: object) -> str:
    if isinstance(argument, torch.Tensor):
        return f"a {str(argument.dtype).removeprefix('torch.')} tensor of {argument.ndim} axes"
    return "None" if argument is None else f"a {type(argument).__name__}"


def is_number(argument: object) -> bool:
    """Whether an argument can be an `AnyNumber`."""
    return type(argument) in _DTYPES


def example_of(given: torch.Tensor | Held) -> torch.Tensor:
    """The tensor from which an input's dtype and sizes are taken."""
    return given.item if isinstance(given, Held) else given


def is_input(leaf: object) -> bool:
    """Whether a leaf of the arguments is an input of the model."""
    return isinstance(leaf, (torch.Tensor, Held))


# --- marks ------------------------------------------------------------------------------------------------------------


def wrapped_by_name(spec: Mapping[str, Any], arguments: dict[str, Any], requested: Sequence[str]) -> dict[str, Any]:
    """The arguments, with those wrapped that are marked in `dynamic_axes` by the name of a parameter or an input."""
    marks = {name: mark for name, mark in spec.items() if isinstance(mark, Mark)}
    taken: set[str] = set()
    wrapped, position = {}, 0
    for name, argument in arguments.items():
        called = requested[position] if position < len(requested) else name
        key = called if called in marks else name
        wrapped[name] = _held(f"dynamic_axes[{key!r}]", argument, marks[key]) if key in marks else argument
        taken.add(key)
        position += sum(map(is_input, pytree.tree_leaves(wrapped[name])))
    unknown = [name for name in marks if name not in taken]
    if unknown:
        raise ArgumentError(
            f"dynamic_axes[{unknown[0]!r}] is {_named(marks[unknown[0]])}, but the program has no argument of "
            f"this name: give one of {', '.join(arguments)}"
        )
    return wrapped


def wrapped_by_shape(what: str, spec: Any, argument: Any) -> Any:
    """An argument, with its parts wrapped that are marked in `dynamic_shapes`, at any depth."""
    if isinstance(spec, Mark):
        return _held(what, argument, spec)
    if isinstance(argument, int) and kind_of_hint(spec) in ("AUTO", "DYNAMIC"):
        # This is how torch.export asks for it.
        return Held.of(what, argument, AnyNumber())
    if type(argument) is dict and isinstance(spec, Mapping):
        return {key: wrapped_by_shape(f"{what}[{key!r}]", spec.get(key), item) for key, item in argument.items()}
    if type(argument) in (list, tuple) and isinstance(spec, (list, tuple)) and len(spec) == len(argument):
        parts = (
            wrapped_by_shape(f"{what}[{place}]", *pair) for place, pair in enumerate(zip(spec, argument, strict=True))
        )
        return type(argument)(parts)
    return argument


def _held(what: str, argument: Any, mark: Mark) -> Any:
    """The argument as one input; a structure of numbers with one input for each."""
    if isinstance(mark, AnyNumber) and isinstance(argument, (list, tuple, dict)):
        return pytree.tree_map(lambda number: Held.of(what, number, mark), argument)
    return Held.of(what, argument, mark)


def _named(mark: Mark) -> str:
    name = type(mark).__name__
    return f"an {name}" if name[0] in "AO" else f"a {name}"


def without_marks(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {name: wanted for name, wanted in spec.items() if not isinstance(wanted, Mark)}


# --- arguments and inputs ---------------------------------------------------------------------------------------------


class Layout(msgspec.Struct, frozen=True):
    """The positions of the inputs among the arguments of a program with marked inputs."""

    spec: pytree.TreeSpec
    leaves: tuple[Any, ...]

    @classmethod
    def of(cls, arguments: tuple[tuple[Any, ...], Mapping[str, Any]]) -> Layout:
        leaves, spec = pytree.tree_flatten(arguments)
        return cls(spec, tuple(leaves))

    def inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Given]:
        """The inputs among other arguments of the same structure."""
        paired = self._paired(args, kwargs)
        return [own.as_input(leaf) if isinstance(own, Held) else leaf for own, leaf in paired if is_input(own)]

    def filled(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], inputs: Iterator[Given]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Other arguments of the same structure, with their inputs replaced by these."""
        leaves = [
            own.as_argument(next(inputs)) if isinstance(own, Held) else next(inputs) if is_input(own) else leaf
            for own, leaf in self._paired(args, kwargs)
        ]
        filled: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_unflatten(leaves, self.spec)
        return filled

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The example's arguments, with marked lists and optionals wrapped as single inputs."""
        arguments: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_unflatten(list(self.leaves), self.spec)
        return arguments

    def _paired(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[Any, Any]]:
        return list(zip(self.leaves, self.spec.flatten_up_to((tuple(args), dict(kwargs))), strict=True))
