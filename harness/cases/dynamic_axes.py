"""The dynamic axes of a declaration: the named axes of its inputs, and their sizes in the example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from onnx_parity.exporter.request.marked_inputs import ListOf, OrNone
from onnx_parity.harness.declaration_error import DeclarationError
from onnx_parity.harness.inputs import Given, Listed, Maker

#: For the name of each input, its axes and the names of their sizes: `{"x": {0: "batch"}}`. The axes are in a `ListOf`
#: or `OrNone` if the input is a list of any length, or may be None.
DynamicAxes: TypeAlias = Mapping[str, Mapping[int, str] | ListOf | OrNone]


def named_axes(wanted: Mapping[int, str] | ListOf | OrNone) -> Mapping[int, str]:
    return wanted.axes if isinstance(wanted, ListOf | OrNone) else wanted


def length_of(name: str) -> str:
    """The name of the length of an input that is a list."""
    return f"len({name})"


def example_sizes(dynamic: DynamicAxes, inputs: Mapping[str, Maker], place: str) -> dict[str, int]:
    """The size of each dynamic axis in the example, by the axis's name."""
    sizes: dict[str, int] = {}
    for name, wanted in dynamic.items():
        if name not in inputs:
            there_are = f"the inputs are {', '.join(inputs)}" if inputs else "the program has no inputs"
            raise DeclarationError(f"{place}: dynamic= names {name!r}, which is not an input: {there_are}.")
        maker = inputs[name]
        if isinstance(maker, Listed):
            sizes[length_of(name)] = len(maker.items)
        axes = named_axes(wanted)
        if axes and isinstance(maker, Given):
            raise DeclarationError(
                f"{place}: dynamic= names {name!r}, whose values are fixed, so that it has no other sizes. "
                "Write a maker such as floats(2, 3), or leave the input out of dynamic=."
            )
        for axis, symbol in axes.items():
            if axis not in range(len(maker.shape)):
                raise DeclarationError(f"{place}: dynamic= names axis {axis} of {name}, whose shape is {maker.shape}.")
            size = maker.shape[axis]
            if sizes.setdefault(symbol, size) != size:
                raise DeclarationError(
                    f"{place}: {symbol!r} is {sizes[symbol]} in one input and {size} in {name}. "
                    "Give them different names, or the inputs the same size."
                )
    return sizes
