"""Functions of torch that take plain numbers, and what is called in their place if these may be symbols.

    @with_symbolic_numbers(torch.narrow, torch.Tensor.narrow, "aten::narrow")
    def narrow(torchs, input, dim, start, length): ...

Python's own conversions (`int`, `__index__`) would turn a symbol into the example's number. A function has the
parameters of torch's, after torch's function itself, so that numbers may be given by name too, and returns
`NotImplemented` where torch's serves. The name of an operator stands for its steps in scripts: their numbers that
depend on values are given to the function as symbols.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from onnx_parity.exporter.registry.rules import Aspect, Rule, add, load
from onnx_parity.exporter.torch_inside.code_objects import first_line
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller

__all__ = [
    "functions_with_symbolic_numbers",
    "operator_with_symbolic_numbers",
    "read_number",
    "read_numbers_after",
    "with_symbolic_numbers",
]

asks_for_its_caller(__file__)

_Function = Callable[..., Any]
#: By torch's functions: what is called first, with torch's function and then the arguments.
_functions: dict[_Function, _Function] = {}
#: The same for the operators of scripts, by their names.
_operators: dict[str, _Function] = {}


def with_symbolic_numbers(*replaced: _Function | str) -> Callable[[_Function], _Function]:
    """Call the decorated function in the place of functions of torch, and of operators of scripts."""

    def register(ours: _Function) -> _Function:
        # Comparisons of sizes in these functions are the program's.
        asks_for_its_caller(first_line(ours)[0])
        for each in replaced:
            if isinstance(each, str):
                _operators[each] = ours
            else:
                _functions[each] = functools.partial(ours, each)
            add(Rule(each if isinstance(each, str) else _name_of(each), Aspect.NUMBERS, ours))
        return ours

    return register


def read_numbers_after(count: int, *functions: _Function) -> None:
    """Read tensors of one int among the arguments after so many of them: as sizes and indices they may be symbols."""

    def call(torchs: _Function, *args: Any, **options: Any) -> Any:
        return torchs(*args[:count], *map(read_number, args[count:]), **options)

    with_symbolic_numbers(*functions)(call)


def functions_with_symbolic_numbers() -> Mapping[_Function, _Function]:
    """What is called in the place of functions of torch, by these. The families that have such rules are imported."""
    load(Aspect.NUMBERS)
    return _functions


def operator_with_symbolic_numbers(name: str) -> _Function | None:
    """What is called in the place of an operator of a script, with a function that calls the operator itself."""
    load(Aspect.NUMBERS)
    return _operators.get(name)


def read_number(item: Any) -> Any:
    """The number of a tensor of one int, also in a list of sizes; other items unchanged."""
    if isinstance(item, torch.Tensor):
        is_number = item.ndim == 0 and not item.is_floating_point() and item.dtype is not torch.bool
        return item.item() if is_number else item
    if type(item) in (list, tuple) and any(isinstance(part, torch.Tensor) for part in item):
        return type(item)(map(read_number, item))
    return item


def _name_of(function: _Function) -> str:
    """`torch.Tensor.narrow`, `torch.nn.functional.interpolate`."""
    owner = getattr(function, "__objclass__", None)
    if owner is not None:
        return f"torch.Tensor.{function.__name__}"
    module = getattr(function, "__module__", None) or "torch"
    return f"{module}.{function.__name__}"
