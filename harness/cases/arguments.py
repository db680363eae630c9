"""The arguments of a case's program: which of them are inputs, and the names of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx_parity.harness.declaration_error import DeclarationError
from onnx_parity.harness.inputs import Maker


@dataclass(frozen=True, slots=True)
class Slot:
    """The position of an input, or of a constant, among a program's arguments."""

    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a program, with a `Slot` in the place of each maker; and the makers, by name."""

    positional: tuple[object, ...]
    keywords: Mapping[str, object]
    inputs: Mapping[str, Maker]
    constants: Mapping[str, Maker]


def arguments_of(inputs: Sequence[object], keywords: Mapping[str, object], place: str) -> Arguments:
    """The arguments and inputs. Inputs are called `x`, or `x0`, `x1`, ...; an input that is a keyword has its name."""
    makers: dict[str, Maker] = {}
    constants: dict[str, Maker] = {}
    several = not (len(inputs) == 1 and isinstance(inputs[0], Maker))
    counter = iter(range(1_000))

    def slot(value: object, name: str | None = None) -> object:
        """A maker's position among the inputs, as a `Slot`; any other value is returned unchanged."""
        if isinstance(value, tuple) and any(isinstance(each, Maker | tuple) for each in value):
            return tuple(slot(each, f"{name}_{index}" if name else None) for index, each in enumerate(value))
        if not isinstance(value, Maker):
            return value
        name = name or (f"x{next(counter)}" if several else "x")
        if name in makers or name in constants:
            raise DeclarationError(
                f"{place}: two inputs are called {name!r}: one by its position, one by its keyword. "
                "Give both by position, or rename the keyword."
            )
        (constants if value.constant else makers)[name] = value
        return Slot(name)

    positional = tuple(slot(value) for value in inputs)
    return Arguments(positional, {name: slot(value, name) for name, value in keywords.items()}, makers, constants)
